//! The keyboard.

use fantoccini::actions::{InputSource, KeyAction, KeyActions};
use fantoccini::key::Key;
use serde_json::Value;

use crate::chromium::Chromium;

impl Chromium {
    /// Presses keys one after the other, wherever the focus is.
    #[track_caller]
    pub fn keys(&self, keys: &[Key]) {
        let pressed = keys.iter().fold(KeyActions::new("keyboard".to_owned()), |actions, &key| {
            let value = char::from(key);
            actions.then(KeyAction::Down { value }).then(KeyAction::Up { value })
        });
        self.wait(&format!("pressing {keys:?}"), self.client().perform_actions(pressed));
    }

    /// A key while another is held down.
    #[track_caller]
    pub fn keys_with(&self, held: Key, key: Key) {
        let (held, value) = (char::from(held), char::from(key));
        let pressed = KeyActions::new("keyboard".to_owned())
            .then(KeyAction::Down { value: held })
            .then(KeyAction::Down { value })
            .then(KeyAction::Up { value })
            .then(KeyAction::Up { value: held });
        self.wait("pressing two keys", self.client().perform_actions(pressed));
    }

    /// What has the focus, as a selector would name it: `button#leave`, `summary`, `body`.
    #[track_caller]
    pub fn focused(&self) -> String {
        let script =
            "const it = document.activeElement; return it ? it.localName + (it.id ? '#' + it.id : '') : ''";
        match self.run(script, &[]) {
            Value::String(focused) => focused,
            _ => String::new(),
        }
    }
}
