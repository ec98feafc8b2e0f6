//! A disk that loses power, and the seeded chance that decides what is left on it.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::StorageBackend;

/// Disks write whole sectors; what is torn is torn between them, or anywhere.
const SECTOR_BYTES: usize = 512;

/// A small generator of numbers (splitmix64), so that a seed says it all.
#[derive(Clone)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap()
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}

#[derive(Clone)]
enum Change {
    Write { offset: usize, data: Vec<u8> },
    SetLength(usize),
}

impl Change {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Self::Write { offset, data } => {
                let end = offset + data.len();
                if image.len() < end {
                    image.resize(end, 0);
                }
                image[*offset..end].copy_from_slice(data);
            }
            Self::SetLength(length) => image.resize(*length, 0),
        }
    }
}

/// What is on the platters, what the machine believes is there, and what lies between the two.
struct DiskState {
    synced: Vec<u8>,
    current: Vec<u8>,
    unsynced: Vec<Change>,
    /// Calls until the power goes; `None`: it stays.
    fuse: Option<u64>,
    syncs: u64,
}

#[derive(Clone)]
pub(crate) struct Disk(Arc<Mutex<DiskState>>);

impl std::fmt::Debug for Disk {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Disk")
    }
}

impl Disk {
    pub(crate) fn new(image: Vec<u8>, fuse: Option<u64>) -> Self {
        Self(Arc::new(Mutex::new(DiskState {
            synced: image.clone(),
            current: image,
            unsynced: vec![],
            fuse,
            syncs: 0,
        })))
    }

    fn state(&self) -> MutexGuard<'_, DiskState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lost_power(&self) -> bool {
        self.state().fuse == Some(0)
    }

    pub(crate) fn syncs(&self) -> u64 {
        self.state().syncs
    }

    /// One call of the machine. The one during which the power goes fails, and so does every later one.
    fn call<T>(&self, work: impl FnOnce(&mut DiskState, bool) -> T) -> io::Result<T> {
        let mut state = self.state();
        if state.fuse == Some(0) {
            return Err(io::Error::other("no power"));
        }
        state.fuse = state.fuse.map(|left| left - 1);
        let dying = state.fuse == Some(0);
        let result = work(&mut state, dying);
        if dying { Err(io::Error::other("the power went")) } else { Ok(result) }
    }

    /// What is found when the power is back: all that was synced and some of the rest.
    pub(crate) fn surviving_image(&self, random: &mut Random) -> Vec<u8> {
        let state = self.state();
        let mut image = state.synced.clone();
        let mut changes = state.unsynced.clone();
        // Sometimes everything or nothing of it arrived, mostly a part.
        let percent = [0, 10, 50, 90, 100][random.index(5)];
        if random.chance(70) {
            random.shuffle(&mut changes);
        }
        for change in changes {
            if !random.chance(percent) {
                continue;
            }
            match change {
                Change::Write { offset, data } if random.chance(25) => {
                    tear(&mut image, offset, &data, random);
                }
                whole => whole.apply(&mut image),
            }
        }
        image
    }
}

/// Writes a part: up to some byte, or some of the sectors.
fn tear(image: &mut Vec<u8>, offset: usize, data: &[u8], random: &mut Random) {
    if random.chance(50) {
        let written = random.index(data.len() + 1);
        let data = data[..written].to_vec();
        Change::Write { offset, data }.apply(image);
        return;
    }
    for (index, sector) in data.chunks(SECTOR_BYTES).enumerate() {
        if random.chance(50) {
            let (offset, data) = (offset + index * SECTOR_BYTES, sector.to_vec());
            Change::Write { offset, data }.apply(image);
        }
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        self.call(|state, _| state.current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        let found = self.call(|state, _| {
            let found = state.current.get(offset..offset + out.len());
            found.map(|bytes| out.copy_from_slice(bytes))
        })?;
        found.ok_or_else(|| io::Error::other("read beyond the end"))
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).map_err(io::Error::other)?;
        self.change(Change::SetLength(length))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.call(|state, dying| {
            if !dying {
                let changes = std::mem::take(&mut state.unsynced);
                for change in changes {
                    change.apply(&mut state.synced);
                }
                state.syncs += 1;
            }
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        let data = data.to_vec();
        self.change(Change::Write { offset, data })
    }
}

impl Disk {
    /// What is written while the power goes may arrive too.
    fn change(&self, change: Change) -> io::Result<()> {
        self.call(|state, _| {
            change.apply(&mut state.current);
            state.unsynced.push(change);
        })
    }
}
