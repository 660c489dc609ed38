//! What a contender may do next: one access to the disk for each step, and each path in two steps, first
//! the parent directory, then the name in it. Where several accesses are one step, a comment says why that
//! makes no difference.
//!
//! There is no step for a crash, because none is needed: a contender that is never scheduled again has
//! crashed, and the search goes through every way of scheduling.

use super::rules::Rules;
use super::state::{
    At, Contender, GENERATIONS, NO_FOLDER, NOWHERE, Nonce, Slot, State, Ticket, bits, held, nonce,
};

/// How a state breaks the promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A head replacement does not extend the head that it replaces.
    Overwritten,
    /// An operation is in the head twice.
    Doubled,
    /// An operation was acknowledged and is not in the head.
    Missing,
    /// Two contenders hold leases that are both in force.
    TwoOwners,
    /// A contender cannot publish, though it alone is running.
    Stuck,
}

pub(crate) struct Step {
    pub(crate) who: usize,
    /// What happens; `{g}` stands for the generation and `{by}` for the folder.
    pub(crate) text: &'static str,
    pub(crate) generation: u8,
    pub(crate) nonce: Nonce,
    pub(crate) next: State,
    pub(crate) fault: Option<Fault>,
}

/// All that can happen next.
pub(crate) fn steps(rules: &Rules, state: &State, out: &mut Vec<Step>) {
    out.clear();
    for who in 0..rules.contenders {
        steps_of(rules, state, who, out);
        vanish(state, who, out);
    }
}

/// All that one contender can do next.
pub(crate) fn steps_of(rules: &Rules, state: &State, who: usize, out: &mut Vec<Step>) {
    let turn = &mut Turn {
        rules,
        state,
        who,
        out,
    };
    match state.contenders[who].at {
        At::ReadHeadFirst => turn.read_head_first(),
        At::List | At::ListEnd => turn.list(),
        At::Fence => turn.fence(),
        At::ClearOpen | At::ClearRead | At::ClearResolve | At::ClearUnlink => turn.clear(),
        At::MakeGeneration | At::MakeOwnResolve | At::MakeOwn => turn.make(),
        At::ListAgain | At::ListAgainEnd => turn.list_again(),
        At::ReadHead => turn.read_head(),
        At::UndoResolve | At::UndoOwn | At::UndoGeneration => turn.undo(),
        At::Owner => turn.own(),
        At::CreateTicket => turn.create_ticket(),
        At::ResolveTicket => {
            turn.resolve_ticket(At::RenameTicket, "finds gen-{g}/{by} for the rename");
        }
        At::RenameTicket => turn.rename_ticket(),
        At::CleanRead
        | At::CleanResolve
        | At::CleanUnlink
        | At::CleanResolveAgain
        | At::CleanRemoveOwn
        | At::CleanRemove => turn.clean(),
        At::Released => turn.go_on(),
        At::OutOfBounds => {}
    }
}

/// A folder of a contender vanishes: somebody took the contender for dead and tidied up, say.
fn vanish(state: &State, who: usize, out: &mut Vec<Step>) {
    let folders = state.contenders[who].folders.iter().enumerate();
    for (which, _) in folders.filter(|(_, folder)| folder.at != NOWHERE && state.vanishing > 0) {
        let nonce = nonce(who, which);
        let mut next = *state;
        next.vanishing -= 1;
        let folder = next.folder_mut(nonce);
        (folder.at, folder.ticket) = (NOWHERE, Ticket::None);
        out.push(Step {
            who,
            text: "loses {by}, with what is in it",
            generation: 0,
            nonce,
            next,
            fault: None,
        });
    }
}

/// Goes on with whoever can only learn that what it has found is gone: nobody notices, and nothing can
/// change that any more.
pub(crate) fn settle(rules: &Rules, state: &mut State) {
    if rules.shares_ticket_directory {
        return;
    }
    let mut out = Vec::new();
    for who in 0..rules.contenders {
        while state.acts_in_vain(who) {
            out.clear();
            steps_of(rules, state, who, &mut out);
            *state = out[0].next;
        }
    }
}

/// Two leases in force at once. A lease is in force while its owner's folder stands under `gen-G`.
pub(crate) fn has_two_owners(state: &State) -> bool {
    let owners = state.contenders.iter().filter(|c| {
        let mut c = **c;
        c.is_owner() && c.own().at == held(c.generation)
    });
    owners.count() > 1
}

/// One contender's turn in one state.
pub(crate) struct Turn<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) state: &'a State,
    pub(crate) who: usize,
    out: &'a mut Vec<Step>,
}

impl Turn<'_> {
    pub(crate) fn me(&self) -> Contender {
        self.state.contenders[self.who]
    }

    pub(crate) fn own_nonce(&self) -> Nonce {
        match self.me().which {
            NO_FOLDER => NOWHERE,
            which => nonce(self.who, usize::from(which)),
        }
    }

    pub(crate) fn step(&mut self, text: &'static str, next: State) {
        let generation = self.me().generation;
        self.step_about(text, generation, self.own_nonce(), next, None);
    }

    pub(crate) fn step_about(
        &mut self,
        text: &'static str,
        generation: u8,
        nonce: Nonce,
        next: State,
        fault: Option<Fault>,
    ) {
        self.out.push(Step {
            who: self.who,
            text,
            generation,
            nonce,
            next,
            fault,
        });
    }

    pub(crate) fn then(&self, at: At) -> State {
        let mut next = *self.state;
        next.contenders[self.who].go(at);
        next
    }

    pub(crate) fn start_over(&self, mut next: State) -> State {
        let is_used_up = next.acquisitions() >= self.rules.acquisitions_in_all;
        let me = &mut next.contenders[self.who];
        me.generation = 0;
        me.which = NO_FOLDER;
        me.target = NOWHERE;
        me.left = 0;
        me.is_fresh = false;
        me.knows_another_head = false;
        me.has_committed = false;
        me.cleans_as_owner = false;
        if !self.rules.shares_ticket_directory {
            // Nobody will rename it any more: whether it was fresh makes no difference.
            for folder in &mut me.folders {
                if folder.ticket == Ticket::Fresh {
                    folder.ticket = Ticket::Stale;
                }
            }
        }
        let at = if me.acquisitions == self.rules.acquisitions || is_used_up {
            me.moved = 0;
            At::OutOfBounds
        } else if self.rules.reads_head_first() {
            At::ReadHeadFirst
        } else {
            At::List
        };
        me.go(at);
        next
    }

    pub(crate) fn learn_head(&self, next: &mut State) {
        let me = &mut next.contenders[self.who];
        me.is_fresh = true;
        if self.rules.looks_before_retrying {
            me.acknowledged = me.published;
        }
    }
}

pub(crate) fn remove_shared_ticket(state: &mut State, dir: Slot) {
    for nonce in bits(state.folders_in(dir)) {
        let ticket = state.folder_mut(nonce);
        ticket.at = NOWHERE;
        ticket.ticket = Ticket::None;
    }
}

pub(crate) fn largest(slots: u32) -> Option<Slot> {
    bits(slots & GENERATIONS).last()
}
