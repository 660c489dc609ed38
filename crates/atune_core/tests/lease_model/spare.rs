//! Spare directories: moved in as a generation, moved out again, taken back when the generation is over.
//!
//! A directory and the folder in it live on under other names, and so does what others have found of them
//! before. A spare that is made anew is nobody else's business until it is moved in, so making one takes no
//! step.

use super::protocol::Turn;
use super::rules::{MovesOut, TakesBack};
use super::state::{
    NO_FOLDER, NOWHERE, Nonce, Slot, State, Ticket, bits, fenced, held, nonce, spare,
};

impl Turn<'_> {
    /// Renames the spare directory to `gen-G`.
    pub(crate) fn move_in(&mut self) {
        let generation = self.me().generation;
        let slot = held(generation);
        if self.state.acquisitions() >= self.rules.acquisitions_in_all {
            let next = self.start_over(*self.state);
            return self.step("makes no more acquisition", next);
        }
        if self.state.has(slot) {
            let next = self.start_over(*self.state);
            self.step("cannot move in as gen-{g}; starts over", next);
            // With nothing in it but an owner's file it is not empty either: both ways are taken.
            if self.state.folders_in(slot) != 0 {
                return;
            }
        }
        let mut next = *self.state;
        let has_spare = next.rename(spare(self.who), slot);
        let own = self.own_in(&next, slot);
        let nonce = own.unwrap_or_else(|| next.new_name(self.who));
        if !has_spare {
            next.make_empty(slot);
            next.folder_mut(nonce).at = slot;
        }
        let me = &mut next.contenders[self.who];
        me.acquired_with(nonce);
        // It is taken back under a later acquisition at the earliest, and used for one after that.
        if me.acquisitions >= self.rules.acquisitions {
            me.moved = 0;
        } else if me.acquisitions + 1 < self.rules.acquisitions
            && self.rules.takes_back != TakesBack::Never
        {
            me.moved |= bit(generation);
        }
        let next = self.made(next);
        let text = "moves its spare in as gen-{g}, with {by} in it";
        self.step_about(text, generation, nonce, next, None);
    }

    /// Renames `gen-G` back to the spare directory, or to `fenced-G`. Where both are right both are taken.
    pub(crate) fn move_out(&mut self) {
        let generation = self.me().generation;
        let mut moved = *self.state;
        let may = !self.me().knows_another_head || self.rules.moves_out == MovesOut::Always;
        if may && moved.rename(held(generation), spare(self.who)) {
            let me = &mut moved.contenders[self.who];
            me.moved &= !bit(generation);
            me.which = NO_FOLDER;
            let is_last = me.acquisitions == self.rules.acquisitions;
            if !is_last {
                self.furnish(&mut moved);
            }
            let next = self.start_over(moved);
            self.step("renames gen-{g} back to its spare; starts over", next);
        }
        let mut fenced = *self.state;
        fenced.fence(generation);
        let next = self.start_over(fenced);
        self.step(
            "renames gen-{g} to fenced-{g}, if that can be; starts over",
            next,
        );
    }

    /// Gives the folder in its spare a name that was never used before.
    fn furnish(&self, next: &mut State) {
        let mine = spare(self.who);
        let name = next.new_name(self.who);
        match self.own_in(next, mine) {
            Some(own) => next.rename_folder(own, name),
            None => next.folder_mut(name).at = mine,
        }
    }

    pub(crate) fn may_take_back(&self, state: &State) -> bool {
        let me = self.me();
        let may = match self.rules.takes_back {
            TakesBack::Never => false,
            TakesBack::AllButTheNewest => true,
            TakesBack::BelowAnOwnCommit => me.has_committed,
        };
        // Who will not acquire again needs no spare.
        may && me.acquisitions < self.rules.acquisitions
            && me.acknowledged < self.rules.operations
            && state.acquisitions() < self.rules.acquisitions_in_all
            && !state.has(spare(self.who))
    }

    /// Takes a directory that is over back as its spare. Nobody finds anything in a spare by name, so what
    /// others still do in it they might as well have done before, and all of it is one step.
    pub(crate) fn take_back(&mut self) {
        if !self.may_take_back(self.state) {
            return;
        }
        let me = self.me();
        let newest = self.newest_fenced();
        for slot in bits(self.state.generations()) {
            let generation = slot / 2 + 1;
            let is_own = me.moved & bit(generation) != 0;
            if is_own
                && slot == fenced(generation)
                && Some(slot) != newest
                && generation < me.generation
            {
                let mut next = *self.state;
                next.contenders[self.who].moved &= !bit(generation);
                next.rename(slot, spare(self.who));
                if let Some(own) = self.own_in(&next, spare(self.who)) {
                    next.folder_mut(own).ticket = Ticket::None;
                }
                self.furnish(&mut next);
                let text = "takes fenced-{g} back as its spare";
                self.step_about(text, generation, NOWHERE, next, None);
            }
        }
    }

    /// Its own folder in a directory.
    fn own_in(&self, state: &State, slot: Slot) -> Option<Nonce> {
        let folders = state.contenders[self.who].folders;
        let which = folders.iter().position(|folder| folder.at == slot);
        which.map(|which| nonce(self.who, which))
    }
}

fn bit(generation: u8) -> u8 {
    1 << (generation - 1)
}
