//! Looks at what other nodes do to a shared store: a glance at all rooms four times a second, and at once on news.
//!
//! A room that another node has taken further is read again by its owner, so that every node's board follows. The glance is
//! also what takes and extends leases: whoever has a room's lease runs its clockwork. News only make it faster; what they
//! do not tell, the next glance does.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anteroom_core::RoomId;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::handle::{Request, RoomHandle};
use super::{ENDED_ERA, Engine};
use crate::contract::{Glance, News};

/// Time between two glances at everything.
pub const GLANCE_PERIOD: Duration = Duration::from_millis(250);
/// How long a lease lasts unless it is extended: several glances may fail before another node takes over.
pub const LEASE: Duration = Duration::from_secs(2);
/// News that come close together are looked at together.
const NEWS_SPACING: Duration = Duration::from_millis(10);
/// How often the list of rooms is read although nobody told that it changed, in glances.
const NAMES_PERIOD_GLANCES: u32 = 40;

/// Runs until the engine ends.
pub(super) async fn run(engine: Weak<Engine>, mut news: mpsc::Receiver<News>) {
    let mut clock = tokio::time::interval(GLANCE_PERIOD);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut known, mut glances, mut news_end) = (Known::default(), 0u32, false);
    loop {
        let mut named = BTreeSet::new();
        let everything;
        tokio::select! {
            _ = clock.tick() => everything = true,
            first = news.recv(), if !news_end => {
                let Some(first) = first else {
                    news_end = true;
                    continue;
                };
                everything = gather(first, &mut news, &mut named).await;
            }
        }
        let Some(engine) = engine.upgrade() else { return };
        if *engine.era.borrow() == ENDED_ERA {
            return;
        }
        if everything {
            glances = glances.wrapping_add(1);
        }
        engine.look(&mut known, (!everything).then_some(&named), glances % NAMES_PERIOD_GLANCES == 0).await;
    }
}

/// Takes the news that follow closely; returns whether they concern more than single rooms.
async fn gather(first: News, news: &mut mpsc::Receiver<News>, named: &mut BTreeSet<RoomId>) -> bool {
    let mut everything = note(first, named);
    let gathering = async {
        while let Some(next) = news.recv().await {
            everything |= note(next, named);
        }
    };
    // Its end is the end of the time, or of all news.
    let _ = tokio::time::timeout(NEWS_SPACING, gathering).await;
    everything
}

fn note(news: News, named: &mut BTreeSet<RoomId>) -> bool {
    match news {
        News::Room(room) => {
            named.insert(room);
            false
        }
        News::Names | News::Values => true,
    }
}

/// What the last glance showed beside rooms.
#[derive(Default)]
struct Known {
    values: Option<u64>,
    names: Option<u64>,
}

impl Engine {
    /// Looks at these rooms, or at all.
    async fn look(&self, known: &mut Known, only: Option<&BTreeSet<RoomId>>, read_names: bool) {
        let mut handles = self.rooms.all();
        handles.retain(|handle| only.is_none_or(|only| only.contains(handle.id())));
        let ids: Vec<RoomId> = handles.iter().map(|handle| handle.id().clone()).collect();
        let seen = match self.store.glance(&ids, self.node, LEASE).await {
            Ok(seen) => seen,
            Err(error) => {
                tracing::debug!(%error, "no look at the store");
                return;
            }
        };
        self.contact.note();
        for (handle, glance) in handles.iter().zip(&seen.rooms) {
            show(handle, glance.as_ref());
        }
        let names_changed = known.names.replace(seen.names) != Some(seen.names);
        if (names_changed || read_names) && self.own_new_rooms().await.is_err() {
            // Asked again at the next glance.
            known.names = None;
        }
        if known.values.replace(seen.values).is_some_and(|before| before != seen.values) {
            self.values.send_modify(|number| *number += 1);
        }
    }

    /// Takes hold of rooms that other nodes have made.
    async fn own_new_rooms(&self) -> Result<(), super::EngineError> {
        let _one_at_a_time = self.change_rooms().await?;
        Ok(self.own_all().await?)
    }
}

/// Tells a room's owner what the glance showed, if that is news.
fn show(handle: &Arc<RoomHandle>, glance: Option<&Glance>) {
    let held_before = handle.note_lease(glance.is_some_and(|glance| glance.holds_lease));
    let gained_lease = handle.holds_lease() && !held_before;
    let is_news = glance.is_none_or(|glance| handle.is_behind(glance));
    if is_news || gained_lease {
        // A full queue has somebody in it for whom the owner turns to the store anyway.
        let _ = handle.tell(Request::Look { glance: glance.copied(), answer: None });
    }
}
