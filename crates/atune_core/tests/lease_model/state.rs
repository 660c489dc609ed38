//! One state of the model: the folder, the head, and where every contender stands.
//!
//! A directory has one name at a time, so it is named by where it stands now: when it is renamed, whoever
//! has resolved it goes along, and when it is removed, whoever has resolved it holds a dead directory.
//! That keeps what the kernel's inodes do without numbering them.
//!
//! The head is kept as the number of operations that each contender has in it. That is enough, because the
//! search ends at the first head replacement that does not extend the head it replaces: until then every
//! head that somebody read is either the current one or an older one, and one bit tells which.

/// Contenders of the largest configuration.
pub(crate) const CONTENDERS_MAX: usize = 3;
/// Acquisitions of one contender, each with a folder of its own.
pub(crate) const ACQUISITIONS_MAX: usize = 3;
/// The slots that are generations, one bit for each. Listings look for nothing else.
pub(crate) const GENERATIONS: u32 = (1 << SPARES) - 1;
/// The slot of the first contender's spare directory; those of the others follow.
pub(crate) const SPARES: Slot = 10;
/// None of a contender's folders.
pub(crate) const NO_FOLDER: u8 = 3;
/// A directory that is not there (yet, or any more).
pub(crate) const NOWHERE: u8 = 15;

/// A generation's directory under one of its two names, or a spare directory. Ascending: a larger generation
/// wins, and of one generation `fenced` wins over `gen`.
pub(crate) type Slot = u8;

pub(crate) fn held(generation: u8) -> Slot {
    2 * (generation - 1)
}

pub(crate) fn fenced(generation: u8) -> Slot {
    held(generation) + 1
}

/// The spare directory of a contender.
pub(crate) fn spare(who: usize) -> Slot {
    SPARES + u8::try_from(who).unwrap_or(0)
}

/// Where a contender stands: the access to the disk that it makes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum At {
    ReadHeadFirst,
    #[default]
    List,
    ListEnd,
    Fence,
    ClearOpen,
    ClearRead,
    ClearResolve,
    ClearUnlink,
    MakeGeneration,
    MakeOwnResolve,
    MakeOwn,
    ListAgain,
    ListAgainEnd,
    ReadHead,
    UndoResolve,
    UndoOwn,
    UndoGeneration,
    /// Owner between two accesses: may commit, clean up or release.
    Owner,
    CreateTicket,
    ResolveTicket,
    RenameTicket,
    CleanRead,
    CleanResolve,
    CleanUnlink,
    CleanResolveAgain,
    CleanRemoveOwn,
    CleanRemove,
    /// Has released; may clean up, and goes on if it has more to publish.
    Released,
    /// Would need more acquisitions or generations than the bounds allow.
    OutOfBounds,
}

impl At {
    const ALL: [Self; 29] = [
        Self::ReadHeadFirst,
        Self::List,
        Self::ListEnd,
        Self::Fence,
        Self::ClearOpen,
        Self::ClearRead,
        Self::ClearResolve,
        Self::ClearUnlink,
        Self::MakeGeneration,
        Self::MakeOwnResolve,
        Self::MakeOwn,
        Self::ListAgain,
        Self::ListAgainEnd,
        Self::ReadHead,
        Self::UndoResolve,
        Self::UndoOwn,
        Self::UndoGeneration,
        Self::Owner,
        Self::CreateTicket,
        Self::ResolveTicket,
        Self::RenameTicket,
        Self::CleanRead,
        Self::CleanResolve,
        Self::CleanUnlink,
        Self::CleanResolveAgain,
        Self::CleanRemoveOwn,
        Self::CleanRemove,
        Self::Released,
        Self::OutOfBounds,
    ];

    /// True while `dir` is a generation's directory that was resolved.
    pub(crate) fn holds_generation(self) -> bool {
        matches!(
            self,
            Self::ClearRead
                | Self::MakeOwn
                | Self::UndoOwn
                | Self::CreateTicket
                | Self::RenameTicket
                | Self::CleanRead
        )
    }

    /// True while `dir` is a folder `by-<nonce>` that was found already, and not its name in a directory.
    fn holds_ticket_directory(self) -> bool {
        matches!(self, Self::ClearUnlink | Self::CleanUnlink)
    }

    /// True while `dir` is a folder `by-<nonce>`.
    pub(crate) fn holds_own_folder(self) -> bool {
        matches!(
            self,
            Self::ClearUnlink | Self::CleanUnlink | Self::CleanResolveAgain | Self::CleanRemoveOwn
        )
    }

    pub(crate) fn is_listing(self) -> bool {
        matches!(self, Self::ListEnd | Self::ListAgainEnd)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ticket {
    #[default]
    None,
    /// Extends a head that is no longer the current one.
    Stale,
    /// Extends the current head.
    Fresh,
}

/// A folder `by-<nonce>`, and the ticket in it. Where owners share a ticket directory there are no such
/// folders, and this is the ticket itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnFolder {
    pub(crate) at: Slot,
    pub(crate) ticket: Ticket,
}

pub(crate) const ABSENT: OwnFolder = OwnFolder {
    at: NOWHERE,
    ticket: Ticket::None,
};

/// A folder `by-<nonce>` by the number of its name: contender times [`ACQUISITIONS_MAX`], plus which of its
/// names it is. A number stands for another name once nobody knows the old one any more.
pub(crate) type Nonce = u8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contender {
    pub(crate) at: At,
    /// The generation that it fences, wants or holds; 0 for none.
    pub(crate) generation: u8,
    /// The directory that it has resolved: a slot or a nonce, as `at` says.
    pub(crate) dir: u8,
    /// The generation's directory that it cleans up or takes back.
    pub(crate) target: Slot,
    /// The folders that it has still to handle, or what a listing in progress has seen.
    pub(crate) left: u32,
    pub(crate) acquisitions: u8,
    pub(crate) folders: [OwnFolder; ACQUISITIONS_MAX],
    /// Which of its folders belongs to the acquisition under way, or [`NO_FOLDER`].
    pub(crate) which: u8,
    /// The generations into which it has moved a directory and that it may take back, one bit for each.
    pub(crate) moved: u8,
    pub(crate) acknowledged: u8,
    pub(crate) published: u8,
    /// What it knows of the head is the current head.
    pub(crate) is_fresh: bool,
    /// Is too late because the head has changed.
    pub(crate) knows_another_head: bool,
    /// Goes on as owner after cleaning up.
    pub(crate) cleans_as_owner: bool,
    /// Has published in the generation that it holds.
    pub(crate) has_committed: bool,
}

impl Default for Contender {
    fn default() -> Self {
        Self {
            at: At::default(),
            generation: 0,
            dir: NOWHERE,
            target: NOWHERE,
            left: 0,
            acquisitions: 0,
            folders: [ABSENT; ACQUISITIONS_MAX],
            which: NO_FOLDER,
            moved: 0,
            acknowledged: 0,
            published: 0,
            is_fresh: false,
            knows_another_head: false,
            cleans_as_owner: false,
            has_committed: false,
        }
    }
}

impl Contender {
    /// Goes to the next access, forgetting what was resolved for the last one.
    pub(crate) fn go(&mut self, at: At) {
        self.at = at;
        self.dir = NOWHERE;
    }

    /// The folder of the acquisition under way.
    pub(crate) fn own(&mut self) -> &mut OwnFolder {
        &mut self.folders[usize::from(self.which)]
    }

    /// Begins to hold a generation, with this folder in it.
    pub(crate) fn acquired_with(&mut self, folder: Nonce) {
        self.acquisitions += 1;
        self.which = u8::try_from(split(folder).1).unwrap_or(NO_FOLDER);
    }

    /// Has finished acquiring, its look at the head included, and believes to be the owner still.
    pub(crate) fn is_owner(&self) -> bool {
        let cleans = matches!(
            self.at,
            At::CleanRead
                | At::CleanResolve
                | At::CleanUnlink
                | At::CleanResolveAgain
                | At::CleanRemoveOwn
                | At::CleanRemove
        );
        (cleans && self.cleans_as_owner)
            || matches!(
                self.at,
                At::Owner | At::CreateTicket | At::ResolveTicket | At::RenameTicket
            )
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// One bit for each slot.
    pub(crate) present: u32,
    /// How many more successful renames may be answered with an error.
    pub(crate) lies: u8,
    /// How many more folders may vanish.
    pub(crate) vanishing: u8,
    pub(crate) contenders: [Contender; CONTENDERS_MAX],
}

/// A state in the form in which it is kept.
pub(crate) type Packed = [u64; CONTENDERS_MAX + 1];

impl State {
    pub(crate) fn has(&self, slot: Slot) -> bool {
        self.present & (1 << slot) != 0
    }

    /// The slots of generations that are there.
    pub(crate) fn generations(&self) -> u32 {
        self.present & GENERATIONS
    }

    /// The acquisitions that all contenders together have begun.
    pub(crate) fn acquisitions(&self) -> u8 {
        self.contenders.iter().map(|c| c.acquisitions).sum()
    }

    pub(crate) fn folder(&self, nonce: Nonce) -> OwnFolder {
        let (who, which) = split(nonce);
        self.contenders[who].folders[which]
    }

    pub(crate) fn folder_mut(&mut self, nonce: Nonce) -> &mut OwnFolder {
        let (who, which) = split(nonce);
        &mut self.contenders[who].folders[which]
    }

    /// The folders in a directory, one bit for each.
    pub(crate) fn folders_in(&self, slot: Slot) -> u32 {
        let all = self.contenders.iter().flat_map(|c| c.folders).enumerate();
        all.filter(|(_, folder)| folder.at == slot && slot != NOWHERE)
            .fold(0, |mask, (nonce, _)| mask | (1 << nonce))
    }

    pub(crate) fn make_generation(&mut self, slot: Slot) -> bool {
        let is_new = !self.has(slot);
        self.present |= 1 << slot;
        self.show_to_listings();
        is_new
    }

    /// Puts a new directory in the place of nothing or of an empty one.
    pub(crate) fn make_empty(&mut self, slot: Slot) {
        self.lead_resolved(slot, NOWHERE);
        self.make_generation(slot);
    }

    /// Removes a generation's directory; false if it is absent or not empty.
    pub(crate) fn remove_generation(&mut self, slot: Slot) -> bool {
        let removes = self.has(slot) && self.folders_in(slot) == 0;
        if removes {
            self.present &= !(1 << slot);
            self.lead_resolved(slot, NOWHERE);
            self.show_to_listings();
        }
        removes
    }

    /// Renames `gen-G` to `fenced-G`.
    pub(crate) fn fence(&mut self, generation: u8) -> bool {
        self.rename(held(generation), fenced(generation))
    }

    /// Renames a directory, over an empty one if there is one, as POSIX has it.
    pub(crate) fn rename(&mut self, from: Slot, to: Slot) -> bool {
        let renames = self.has(from) && self.folders_in(to) == 0;
        if renames {
            self.lead_resolved(to, NOWHERE);
            self.lead_resolved(from, to);
            let folders = self.contenders.iter_mut().flat_map(|c| &mut c.folders);
            for folder in folders.filter(|folder| folder.at == from) {
                folder.at = to;
            }
            self.present = self.present & !(1 << from) | (1 << to);
            self.show_to_listings();
        }
        renames
    }

    /// Renames a folder `by-<nonce>` within its directory. Who has found it goes on in it; who has found the
    /// directory finds nothing under the old name.
    pub(crate) fn rename_folder(&mut self, from: Nonce, to: Nonce) {
        *self.folder_mut(to) = self.folder(from);
        *self.folder_mut(from) = ABSENT;
        for contender in &mut self.contenders {
            if contender.at.holds_ticket_directory() && contender.dir == from {
                contender.dir = to;
            }
        }
    }

    fn lead_resolved(&mut self, from: Slot, to: Slot) {
        for contender in &mut self.contenders {
            if contender.at.holds_generation() && contender.dir == from {
                contender.dir = to;
            }
        }
    }

    /// A listing in progress surely shows what was there all the time, and may show what was there at times.
    fn show_to_listings(&mut self) {
        let there = self.generations();
        for contender in self.contenders.iter_mut().filter(|c| c.at.is_listing()) {
            let (all, any) = seen(contender.left);
            contender.left = listing(all & there, any | there);
        }
    }

    /// A number for the name of a new folder.
    pub(crate) fn new_name(&self, who: usize) -> Nonce {
        let known = self.known();
        let mut names = (0..ACQUISITIONS_MAX).map(|which| nonce(who, which));
        let is_free = |&name: &Nonce| self.folder(name).at == NOWHERE && known & (1 << name) == 0;
        names.find(is_free).expect("one for each acquisition")
    }

    pub(crate) fn pack(&self) -> Packed {
        let mut packed = Packed::default();
        for (word, contender) in packed.iter_mut().zip(&self.contenders) {
            *word = contender.pack();
        }
        let mut word = u64::from(self.present);
        word = word << 4 | u64::from(self.vanishing);
        word = word << 4 | u64::from(self.lies);
        for contender in self.contenders.iter().rev() {
            word = word << NAMES_BITS | contender.pack_names();
        }
        packed[CONTENDERS_MAX] = word;
        packed
    }

    pub(crate) fn unpack(packed: &Packed) -> Self {
        let rest = &mut packed[CONTENDERS_MAX].clone();
        Self {
            contenders: std::array::from_fn(|i| Contender {
                which: take(rest, 2),
                moved: take(rest, 5),
                knows_another_head: take(rest, 1) != 0,
                ..Contender::unpack(packed[i])
            }),
            lies: take(rest, 4),
            vanishing: take(rest, 4),
            present: take_wide(rest, 13),
        }
    }
}

impl Contender {
    pub(crate) fn pack(&self) -> u64 {
        let mut word = 0;
        let mut put = |value: u64, bits: u32| word = word << bits | value;
        put(u64::from(self.has_committed), 1);
        put(u64::from(self.cleans_as_owner), 1);
        put(u64::from(self.is_fresh), 1);
        put(u64::from(self.published), 2);
        put(u64::from(self.acknowledged), 2);
        for folder in self.folders.iter().rev() {
            put(folder.ticket as u64, 2);
            put(u64::from(folder.at), 4);
        }
        put(u64::from(self.acquisitions), 2);
        put(u64::from(self.left), 20);
        put(u64::from(self.target), 4);
        put(u64::from(self.dir), 4);
        put(u64::from(self.generation), 3);
        put(self.at as u64, 6);
        word
    }

    /// What does not fit into the word of the contender.
    pub(crate) fn pack_names(&self) -> u64 {
        u64::from(self.knows_another_head) << 7 | u64::from(self.moved) << 2 | u64::from(self.which)
    }

    fn unpack(mut word: u64) -> Self {
        let rest = &mut word;
        Self {
            at: At::ALL[usize::from(take(rest, 6))],
            generation: take(rest, 3),
            dir: take(rest, 4),
            target: take(rest, 4),
            left: take_wide(rest, 20),
            acquisitions: take(rest, 2),
            folders: std::array::from_fn(|_| OwnFolder {
                at: take(rest, 4),
                ticket: [Ticket::None, Ticket::Stale, Ticket::Fresh][usize::from(take(rest, 2))],
            }),
            acknowledged: take(rest, 2),
            published: take(rest, 2),
            is_fresh: take(rest, 1) != 0,
            cleans_as_owner: take(rest, 1) != 0,
            has_committed: take(rest, 1) != 0,
            ..Self::default()
        }
    }
}

/// Bits of [`Contender::pack_names`].
const NAMES_BITS: u32 = 8;

fn take_wide(word: &mut u64, bits: u32) -> u32 {
    let low = *word & ((1 << bits) - 1);
    *word >>= bits;
    u32::try_from(low).unwrap_or(u32::MAX)
}

fn take(word: &mut u64, bits: u32) -> u8 {
    u8::try_from(take_wide(word, bits)).unwrap_or(u8::MAX)
}

pub(crate) fn nonce(who: usize, which: usize) -> Nonce {
    u8::try_from(who * ACQUISITIONS_MAX + which).unwrap_or(NOWHERE)
}

pub(crate) fn split(nonce: Nonce) -> (usize, usize) {
    let nonce = usize::from(nonce);
    (nonce / ACQUISITIONS_MAX, nonce % ACQUISITIONS_MAX)
}

/// The slots that are larger than `gen-G`.
pub(crate) fn above(generation: u8) -> u32 {
    GENERATIONS & !0 << (held(generation) + 1)
}

/// Slots that a listing has seen all the time, and at any time, as one number.
pub(crate) fn listing(all: u32, any: u32) -> u32 {
    all << 10 | any
}

pub(crate) fn seen(listing: u32) -> (u32, u32) {
    (listing >> 10, listing & 0x3ff)
}

/// The numbers of the bits that are set, ascending.
pub(crate) fn bits(mut mask: u32) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let bit = u8::try_from(mask.trailing_zeros()).unwrap_or(NOWHERE);
        let is_left = mask != 0;
        mask &= mask.wrapping_sub(1);
        is_left.then_some(bit)
    })
}
