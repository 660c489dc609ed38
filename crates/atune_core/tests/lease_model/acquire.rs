//! Acquiring: list, fence, remove the tickets, make the next generation, list again, read the head.

use super::protocol::{Turn, largest, remove_shared_ticket};
use super::rules::{HeadRead, Unlink};
use super::state::{
    At, NOWHERE, Slot, State, Ticket, above, bits, fenced, held, listing, nonce, seen,
};

impl Turn<'_> {
    pub(crate) fn read_head_first(&mut self) {
        let mut next = self.then(match self.rules.head_read {
            HeadRead::BeforeUnlinking if self.me().generation > 1 => At::ClearOpen,
            HeadRead::BeforeUnlinking | HeadRead::BetweenUnlinkingAndMaking => At::MakeGeneration,
            _ => At::List,
        });
        self.learn_head(&mut next);
        self.step("reads the head", next);
    }

    pub(crate) fn list(&mut self) {
        if self.me().at == At::ListEnd {
            let (all, any) = seen(self.me().left);
            let least = largest(all);
            for slot in bits(any).filter(|&slot| least.is_none_or(|least| slot >= least)) {
                self.list_found(Some(slot), any);
            }
            if least.is_none() {
                self.list_found(None, any);
            }
        } else if self.rules.has_slow_listings {
            self.begin_listing(At::ListEnd);
        } else {
            self.list_found(largest(self.state.present), self.state.generations());
        }
    }

    fn begin_listing(&mut self, at: At) {
        let mut next = self.then(at);
        next.contenders[self.who].left =
            listing(self.state.generations(), self.state.generations());
        self.step("begins to list", next);
    }

    fn list_found(&mut self, found: Option<Slot>, shown: u32) {
        let Some(slot) = found else {
            let next = self.want(1, *self.state);
            return self.step_about("lists: no generation", 0, NOWHERE, next, None);
        };
        let generation = slot / 2 + 1;
        let is_tie = shown & (1 << held(generation)) != 0 && self.rules.held_wins_a_tie;
        if slot == fenced(generation) && !is_tie {
            let next = self.want(generation + 1, *self.state);
            self.step_about(
                "lists: fenced-{g} is the largest",
                generation,
                NOWHERE,
                next,
                None,
            );
        } else {
            let mut next = self.then(At::Fence);
            next.contenders[self.who].generation = generation;
            next.contenders[self.who].left = 0;
            let text = "lists: gen-{g} is the largest; takes its owner for dead";
            self.step_about(text, generation, NOWHERE, next, None);
        }
    }

    fn want(&self, generation: u8, mut next: State) -> State {
        let me = &mut next.contenders[self.who];
        me.generation = generation;
        me.left = 0;
        if generation > self.rules.generations {
            me.generation = 0;
            me.is_fresh = false;
            me.go(At::OutOfBounds);
        } else if self.rules.head_read == HeadRead::BeforeUnlinking {
            me.go(At::ReadHeadFirst);
        } else if generation == 1 || self.rules.unlink != Unlink::BeforeMakingTheNext {
            self.go_make(&mut next);
        } else {
            me.go(At::ClearOpen);
        }
        next
    }

    fn go_make(&self, next: &mut State) {
        next.contenders[self.who].go(match self.rules.head_read {
            HeadRead::BetweenUnlinkingAndMaking => At::ReadHeadFirst,
            _ => At::MakeGeneration,
        });
    }

    pub(crate) fn fence(&mut self) {
        let mut next = *self.state;
        let generation = self.me().generation;
        if !next.fence(generation) {
            let next = self.start_over(next);
            self.step("cannot rename gen-{g} to fenced-{g}; starts over", next);
        } else if self.rules.head_read == HeadRead::BeforeListingAndAfter {
            let next = self.start_over(next);
            self.step("renames gen-{g} to fenced-{g}; starts over", next);
        } else {
            let next = self.want(generation + 1, next);
            self.step("renames gen-{g} to fenced-{g}", next);
        }
    }

    pub(crate) fn clear(&mut self) {
        let me = self.me();
        let over = me.generation - 1;
        match me.at {
            At::ClearOpen if self.state.has(fenced(over)) => {
                let mut next = self.then(At::ClearRead);
                next.contenders[self.who].dir = fenced(over);
                self.step_about("opens fenced-{g}", over, NOWHERE, next, None);
            }
            At::ClearOpen => {
                let next = self.cleared(*self.state);
                self.step_about("finds no fenced-{g} to clear", over, NOWHERE, next, None);
            }
            At::ClearRead if self.rules.shares_ticket_directory => {
                let mut next = *self.state;
                remove_shared_ticket(&mut next, me.dir);
                let next = self.cleared(next);
                self.step_about("removes fenced-{g}/ticket", over, NOWHERE, next, None);
            }
            At::ClearRead => {
                let next = self.clear_on(*self.state, self.state.folders_in(me.dir));
                self.step_about("lists the folders in fenced-{g}", over, NOWHERE, next, None);
            }
            At::ClearResolve => {
                for nonce in bits(me.left) {
                    if self.state.folder(nonce).at == fenced(over) {
                        let mut next = self.then(At::ClearUnlink);
                        next.contenders[self.who].dir = nonce;
                        let text = "finds fenced-{g}/{by} for the removal of its ticket";
                        self.step_about(text, over, nonce, next, None);
                    } else {
                        let next = self.clear_on(*self.state, me.left & !(1 << nonce));
                        self.step_about("finds no fenced-{g}/{by}", over, nonce, next, None);
                    }
                }
            }
            _ => {
                let mut next = *self.state;
                next.folder_mut(me.dir).ticket = Ticket::None;
                let next = self.clear_on(next, me.left & !(1 << me.dir));
                self.step_about(
                    "removes the ticket in {by}, if any",
                    over,
                    me.dir,
                    next,
                    None,
                );
            }
        }
    }

    fn clear_on(&self, mut next: State, left: u32) -> State {
        next.contenders[self.who].left = left;
        if left == 0 {
            return self.cleared(next);
        }
        next.contenders[self.who].go(At::ClearResolve);
        next
    }

    fn cleared(&self, mut next: State) -> State {
        if self.rules.unlink == Unlink::AfterMakingTheNext {
            next.contenders[self.who].go(At::ReadHead);
        } else {
            self.go_make(&mut next);
        }
        next
    }

    pub(crate) fn make(&mut self) {
        let me = self.me();
        let slot = held(me.generation);
        match me.at {
            At::MakeGeneration if self.rules.moves_in => self.move_in(),
            At::MakeGeneration => {
                let mut next = self.then(At::MakeOwnResolve);
                if !next.make_generation(slot) {
                    let next = self.start_over(*self.state);
                    return self.step("cannot make gen-{g}; starts over", next);
                }
                if self.rules.shares_ticket_directory {
                    let shared = nonce(self.who, usize::from(me.acquisitions));
                    next.contenders[self.who].acquired_with(shared);
                    next = self.made(next);
                }
                self.step("makes gen-{g}", next);
            }
            At::MakeOwnResolve if self.state.has(slot) => {
                let mut next = self.then(At::MakeOwn);
                next.contenders[self.who].dir = slot;
                self.step("finds gen-{g} for its own folder", next);
            }
            At::MakeOwn if me.dir != NOWHERE => {
                let mut next = *self.state;
                let nonce = next.new_name(self.who);
                next.folder_mut(nonce).at = me.dir;
                next.contenders[self.who].acquired_with(nonce);
                let next = self.made(next);
                self.step_about(
                    "makes its folder {by} there",
                    me.generation,
                    nonce,
                    next,
                    None,
                );
            }
            _ => {
                let next = self.then(At::UndoGeneration);
                self.step("finds gen-{g} gone: somebody has fenced it", next);
            }
        }
    }

    pub(crate) fn made(&self, mut next: State) -> State {
        if self.rules.lists_again {
            next.contenders[self.who].go(At::ListAgain);
            next
        } else {
            self.acquired(next)
        }
    }

    fn acquired(&self, mut next: State) -> State {
        let me = &mut next.contenders[self.who];
        me.left = 0;
        me.go(
            if self.rules.unlink == Unlink::AfterMakingTheNext && me.generation > 1 {
                At::ClearOpen
            } else if self.rules.reads_head_after() {
                At::ReadHead
            } else {
                At::Owner
            },
        );
        next
    }

    pub(crate) fn list_again(&mut self) {
        let me = self.me();
        let above = above(me.generation);
        if me.at == At::ListAgain && self.rules.has_slow_listings {
            return self.begin_listing(At::ListAgainEnd);
        }
        let (all, any) = match me.at {
            At::ListAgainEnd => seen(me.left),
            _ => (self.state.generations(), self.state.generations()),
        };
        if any & above != 0 {
            let mut next = self.then(self.undo_first());
            next.contenders[self.who].left = 0;
            self.step("lists again: gen-{g} is not the largest", next);
        }
        if all & above == 0 {
            let next = self.acquired(*self.state);
            self.step(
                "lists again: gen-{g} is the largest, so it is the owner",
                next,
            );
        }
    }

    pub(crate) fn read_head(&mut self) {
        let compares = self.rules.head_read == HeadRead::BeforeListingAndAfter;
        if compares && !self.me().is_fresh {
            let mut next = self.then(self.undo_first());
            next.contenders[self.who].knows_another_head = true;
            return self.step("reads the head: it has changed", next);
        }
        let mut next = self.then(At::Owner);
        self.learn_head(&mut next);
        self.step("reads the head", next);
    }

    fn undo_first(&self) -> At {
        if self.rules.moves_in || self.rules.shares_ticket_directory {
            At::UndoGeneration
        } else {
            At::UndoResolve
        }
    }

    pub(crate) fn undo(&mut self) {
        let me = self.me();
        match me.at {
            At::UndoGeneration if self.rules.moves_in => self.move_out(),
            At::UndoResolve if self.state.has(held(me.generation)) => {
                let mut next = self.then(At::UndoOwn);
                next.contenders[self.who].dir = held(me.generation);
                self.step("finds gen-{g} for the removal of {by}", next);
            }
            At::UndoResolve => {
                let next = self.start_over(*self.state);
                self.step("finds gen-{g} gone; starts over", next);
            }
            At::UndoOwn => {
                let mut next = self.then(At::UndoGeneration);
                let own = next.contenders[self.who].own();
                if own.at == me.dir {
                    own.at = NOWHERE;
                }
                self.step("removes {by}", next);
            }
            _ => {
                // Both ways are right, so both are taken.
                let mut removed = *self.state;
                removed.remove_generation(held(me.generation));
                let next = self.start_over(removed);
                self.step("removes gen-{g}, if it is empty; starts over", next);
                let mut renamed = *self.state;
                if renamed.fence(me.generation) {
                    let next = self.start_over(renamed);
                    self.step("renames gen-{g} to fenced-{g}; starts over", next);
                }
            }
        }
    }
}
