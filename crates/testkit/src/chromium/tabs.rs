//! Tabs of one browser, which share its cookies.

use fantoccini::wd::WindowHandle;

use crate::chromium::Chromium;

/// A tab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tab(WindowHandle);

impl Chromium {
    /// The tab that commands go to.
    #[track_caller]
    pub fn tab(&self) -> Tab {
        Tab(self.wait("asking for the tab", self.client().window()))
    }

    /// How many tabs are open.
    #[track_caller]
    pub fn tab_count(&self) -> usize {
        self.wait("asking for the tabs", self.client().windows()).len()
    }

    /// Opens another tab, to which commands go from now on. The one before stays open.
    #[track_caller]
    pub fn open_tab(&self) -> Tab {
        let opened = self.wait("opening a tab", self.client().new_window(true)).handle;
        let tab = Tab(opened);
        self.switch_to(&tab);
        tab
    }

    /// Sends commands to another tab.
    #[track_caller]
    pub fn switch_to(&self, tab: &Tab) {
        self.wait("switching to a tab", self.client().switch_to_window(tab.0.clone()));
    }

    /// Closes the current tab, and sends commands to another.
    #[track_caller]
    pub fn close_tab(&self, next: &Tab) {
        self.wait("closing a tab", self.client().close_window());
        self.switch_to(next);
    }
}
