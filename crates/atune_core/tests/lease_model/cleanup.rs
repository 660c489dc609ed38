//! After the release, and the removal of what is over.

use super::protocol::{Turn, largest, remove_shared_ticket};
use super::rules::Cleanup;
use super::state::{At, NO_FOLDER, NOWHERE, Nonce, Slot, State, Ticket, bits, held};

impl Turn<'_> {
    pub(crate) fn released(&self, mut next: State) -> State {
        let is_done = self.me().acknowledged >= self.rules.operations;
        if !is_done && !self.may_clean() && !self.may_take_back(&next) {
            return self.start_over(next);
        }
        let me = &mut next.contenders[self.who];
        if self.rules.cleanup != Cleanup::BelowAnOwnCommit {
            me.generation = 0;
        }
        me.target = NOWHERE;
        me.which = NO_FOLDER;
        me.is_fresh = false;
        me.cleans_as_owner = false;
        if is_done {
            // It will not acquire again.
            me.moved = 0;
            if self.rules.acquisitions_in_all == u8::MAX {
                me.acquisitions = 0;
            }
        }
        me.go(At::Released);
        next
    }

    pub(crate) fn may_clean(&self) -> bool {
        match self.rules.cleanup {
            Cleanup::Never => false,
            Cleanup::AllButTheNewest => true,
            Cleanup::BelowAnOwnCommit => self.me().has_committed,
        }
    }

    pub(crate) fn go_on(&mut self) {
        self.begin_cleaning();
        self.take_back();
        if self.me().acknowledged < self.rules.operations {
            let next = self.start_over(*self.state);
            self.step("wants to publish more", next);
        }
    }

    pub(crate) fn newest_fenced(&self) -> Option<Slot> {
        bits(self.state.generations())
            .filter(|slot| slot % 2 == 1)
            .last()
    }

    pub(crate) fn begin_cleaning(&mut self) {
        if !self.may_clean() {
            return;
        }
        let me = self.me();
        let newest = self.newest_fenced();
        let largest = largest(self.state.present).unwrap_or(0);
        for slot in bits(self.state.generations()) {
            let is_fenced = slot % 2 == 1;
            let is_old = if is_fenced {
                Some(slot) != newest
            } else {
                slot / 2 < largest / 2
            };
            let is_below =
                self.rules.cleanup != Cleanup::BelowAnOwnCommit || slot < held(me.generation);
            if is_old && is_below {
                // What is old stays old, so finding that out and opening it may be one step.
                let mut next = self.then(At::CleanRead);
                let mine = &mut next.contenders[self.who];
                mine.dir = slot;
                mine.target = slot;
                mine.cleans_as_owner = me.at == At::Owner;
                let text = if is_fenced {
                    "opens fenced-{g}, to clean it up"
                } else {
                    "opens gen-{g}, to clean it up"
                };
                self.step_about(text, slot / 2 + 1, NOWHERE, next, None);
            }
        }
    }

    pub(crate) fn clean(&mut self) {
        let me = self.me();
        let generation = me.target / 2 + 1;
        match me.at {
            At::CleanRead => {
                let mut next = *self.state;
                if self.rules.shares_ticket_directory {
                    remove_shared_ticket(&mut next, me.dir);
                    next.contenders[self.who].go(At::CleanRemove);
                } else {
                    next = self.clean_on(next, self.state.folders_in(me.dir));
                }
                self.step_about(
                    "lists the old directory {g}",
                    generation,
                    NOWHERE,
                    next,
                    None,
                );
            }
            At::CleanResolve => {
                for nonce in bits(me.left) {
                    self.clean_resolve(nonce, At::CleanUnlink);
                }
            }
            At::CleanUnlink => {
                let mut next = *self.state;
                next.folder_mut(me.dir).ticket = Ticket::None;
                next.contenders[self.who].at = At::CleanResolveAgain;
                self.step_about(
                    "removes the ticket in {by}, if any",
                    generation,
                    me.dir,
                    next,
                    None,
                );
            }
            At::CleanResolveAgain => self.clean_resolve(me.dir, At::CleanRemoveOwn),
            At::CleanRemoveOwn => {
                let mut next = *self.state;
                let folder = next.folder_mut(me.dir);
                if folder.ticket == Ticket::None {
                    folder.at = NOWHERE;
                }
                let next = self.clean_on(next, me.left & !(1 << me.dir));
                self.step_about(
                    "removes {by}, if it is empty",
                    generation,
                    me.dir,
                    next,
                    None,
                );
            }
            _ => {
                let mut next = *self.state;
                next.remove_generation(me.target);
                let next = self.cleaned(next);
                self.step_about(
                    "removes the old directory {g}",
                    generation,
                    NOWHERE,
                    next,
                    None,
                );
            }
        }
    }

    fn clean_resolve(&mut self, nonce: Nonce, at: At) {
        let me = self.me();
        let generation = me.target / 2 + 1;
        if self.state.folder(nonce).at == me.target {
            let mut next = self.then(at);
            next.contenders[self.who].dir = nonce;
            self.step_about(
                "finds {by} in the old directory {g}",
                generation,
                nonce,
                next,
                None,
            );
        } else {
            let next = self.clean_on(*self.state, me.left & !(1 << nonce));
            self.step_about(
                "finds no {by} in {g} any more",
                generation,
                nonce,
                next,
                None,
            );
        }
    }

    fn clean_on(&self, mut next: State, left: u32) -> State {
        let me = &mut next.contenders[self.who];
        me.left = left;
        me.go(if left == 0 {
            At::CleanRemove
        } else {
            At::CleanResolve
        });
        next
    }

    pub(crate) fn cleaned(&self, mut next: State) -> State {
        let me = &mut next.contenders[self.who];
        me.left = 0;
        me.target = NOWHERE;
        if me.cleans_as_owner {
            me.cleans_as_owner = false;
            me.go(At::Owner);
            return next;
        }
        if me.acknowledged < self.rules.operations {
            return self.start_over(next);
        }
        me.go(At::Released);
        next
    }
}
