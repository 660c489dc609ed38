//! Owning: move a ticket into the own folder, rename it onto the head, release.

use super::protocol::{Fault, Turn, remove_shared_ticket};
use super::state::{At, NOWHERE, Nonce, State, Ticket, bits, held, split};

impl Turn<'_> {
    pub(crate) fn own(&mut self) {
        let me = self.me();
        if me.acknowledged < self.rules.operations {
            self.resolve_ticket(At::CreateTicket, "finds gen-{g}/{by} for a new ticket");
        }
        self.begin_cleaning();
        self.take_back();
        let mut next = *self.state;
        next.fence(me.generation);
        next = self.released(next);
        self.step(
            "releases: renames gen-{g} to fenced-{g}, if it is there",
            next,
        );
    }

    pub(crate) fn resolve_ticket(&mut self, at: At, text: &'static str) {
        let me = self.me();
        let slot = held(me.generation);
        let is_there = if self.rules.shares_ticket_directory {
            self.state.has(slot)
        } else {
            self.state.folder(self.own_nonce()).at == slot
        };
        if is_there {
            let mut next = self.then(at);
            if self.rules.shares_ticket_directory {
                next.contenders[self.who].dir = slot;
            }
            self.step(text, next);
        } else {
            let next = self.start_over(*self.state);
            self.step("finds the ticket's directory gone; lease lost", next);
        }
    }

    /// The ticket is written elsewhere and then renamed to `gen-G/by-<nonce>/ticket`, so it is there whole or
    /// not at all. It may have been written earlier, from what the owner knew of the head then: that is what
    /// it knows now, since an owner learns of a head only when it has acquired and when it has published, and
    /// `is_fresh` is lost as soon as anybody publishes.
    pub(crate) fn create_ticket(&mut self) {
        let me = self.me();
        let mut next = self.then(At::ResolveTicket);
        let place = if self.rules.shares_ticket_directory {
            remove_shared_ticket(&mut next, me.dir);
            me.dir
        } else {
            self.state.folder(self.own_nonce()).at
        };
        if place == NOWHERE {
            let next = self.start_over(*self.state);
            return self.step("cannot move the ticket there; lease lost", next);
        }
        let own = next.contenders[self.who].own();
        own.at = place;
        own.ticket = if me.is_fresh {
            Ticket::Fresh
        } else {
            Ticket::Stale
        };
        self.step("moves the ticket there", next);
    }

    pub(crate) fn rename_ticket(&mut self) {
        let found = if self.rules.shares_ticket_directory {
            bits(self.state.folders_in(self.me().dir)).next()
        } else {
            Some(self.own_nonce())
        };
        let there = found.filter(|&nonce| {
            let folder = self.state.folder(nonce);
            folder.at != NOWHERE && folder.ticket != Ticket::None
        });
        let Some(ticket) = there else {
            let next = self.start_over(*self.state);
            return self.step("finds no ticket to rename; lease lost", next);
        };
        let (published, fault) = self.publish(ticket);
        let mut next = published;
        let me = &mut next.contenders[self.who];
        me.go(At::Owner);
        me.acknowledged += 1;
        me.is_fresh = true;
        me.has_committed = true;
        let is_missing = me.acknowledged > me.published;
        let fault = fault.or(is_missing.then_some(Fault::Missing));
        let generation = self.me().generation;
        let text = "renames the ticket onto the head: its operation is acknowledged";
        self.step_about(text, generation, ticket, next, fault);
        if self.state.lies > 0 {
            let mut next = self.start_over(published);
            next.lies -= 1;
            let text = "renames the ticket onto the head, and is told that there was none";
            self.step_about(text, generation, ticket, next, fault);
        }
    }

    fn publish(&self, ticket: Nonce) -> (State, Option<Fault>) {
        let mut next = *self.state;
        let folder = next.folder_mut(ticket);
        let is_stale = folder.ticket == Ticket::Stale;
        folder.ticket = Ticket::None;
        if self.rules.shares_ticket_directory {
            folder.at = NOWHERE;
        }
        for contender in &mut next.contenders {
            contender.is_fresh = false;
            for folder in &mut contender.folders {
                if folder.ticket == Ticket::Fresh {
                    folder.ticket = Ticket::Stale;
                }
            }
        }
        let author = &mut next.contenders[split(ticket).0];
        let is_double = author.published > author.acknowledged;
        author.published += 1;
        let fault = if is_stale {
            Some(Fault::Overwritten)
        } else {
            is_double.then_some(Fault::Doubled)
        };
        (next, fault)
    }
}
