//! The bounds of a search, and the protocol as a set of choices, so that each choice can be made wrongly.

/// When the tickets of a generation that is over are removed by whoever wants the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unlink {
    BeforeMakingTheNext,
    AfterMakingTheNext,
    Never,
}

/// When the head is read upon which the first commit of a lease builds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadRead {
    AfterAcquiring,
    /// Before the first listing as well, and the lease is given back if the head has changed in between.
    BeforeListingAndAfter,
    BeforeListing,
    BeforeUnlinking,
    BetweenUnlinkingAndMaking,
}

/// What may be removed, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cleanup {
    Never,
    /// Everything but the newest `fenced-G` and the largest generation, by any owner and after any release.
    AllButTheNewest,
    /// The same, but only what is older than a generation in which the contender itself has published.
    BelowAnOwnCommit,
}

/// When a contender that is too late renames its generation back to its spare, and not to `fenced-G`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MovesOut {
    /// If its second listing told, but not if the head had changed.
    UnlessTheHeadChanged,
    Always,
}

/// Which directories that are over a contender may take back as its spare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakesBack {
    Never,
    /// Its own but for the newest, and only what is older than a generation in which it has published.
    BelowAnOwnCommit,
    /// Its own but for the newest.
    AllButTheNewest,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) contenders: usize,
    /// Operations that each contender has to publish.
    pub(crate) operations: u8,
    /// Acquisitions that each contender may begin.
    pub(crate) acquisitions: u8,
    /// Acquisitions that all of them together may begin. Few of them let one contender go far while the
    /// others hold on to what they have found.
    pub(crate) acquisitions_in_all: u8,
    pub(crate) generations: u8,
    /// Renames of a ticket that take place and are answered with an error all the same.
    pub(crate) lies: u8,
    /// Folders `by-<nonce>` that vanish, at any time, whoever may have removed them.
    pub(crate) vanishing: u8,
    pub(crate) unlink: Unlink,
    pub(crate) head_read: HeadRead,
    pub(crate) cleanup: Cleanup,
    /// A generation is a spare directory that gets its name, and not one that is made under it.
    pub(crate) moves_in: bool,
    pub(crate) moves_out: MovesOut,
    pub(crate) takes_back: TakesBack,
    /// The ticket stands in the generation's directory, not in a folder of its owner.
    pub(crate) shares_ticket_directory: bool,
    pub(crate) lists_again: bool,
    /// Looks whether its operation is in the head already before it publishes it again.
    pub(crate) looks_before_retrying: bool,
    /// Of `gen-G` and `fenced-G` the former counts.
    pub(crate) held_wins_a_tie: bool,
    /// A listing takes time: it surely shows only what is there from its beginning to its end.
    pub(crate) has_slow_listings: bool,
}

impl Rules {
    /// The protocol as it is.
    pub(crate) const PRODUCT: Self = Self {
        contenders: 3,
        operations: 1,
        acquisitions: 2,
        acquisitions_in_all: u8::MAX,
        generations: 3,
        lies: 0,
        vanishing: 0,
        unlink: Unlink::BeforeMakingTheNext,
        head_read: HeadRead::BeforeListingAndAfter,
        cleanup: Cleanup::BelowAnOwnCommit,
        moves_in: true,
        moves_out: MovesOut::UnlessTheHeadChanged,
        takes_back: TakesBack::BelowAnOwnCommit,
        shares_ticket_directory: false,
        lists_again: true,
        looks_before_retrying: true,
        held_wins_a_tie: false,
        has_slow_listings: true,
    };

    pub(crate) fn reads_head_first(&self) -> bool {
        matches!(
            self.head_read,
            HeadRead::BeforeListing | HeadRead::BeforeListingAndAfter
        )
    }

    pub(crate) fn reads_head_after(&self) -> bool {
        matches!(
            self.head_read,
            HeadRead::AfterAcquiring | HeadRead::BeforeListingAndAfter
        )
    }
}
