//! Which states count as one: what nobody can tell apart any more is brought into one form.
//!
//! Contenders are alike, so their order makes no difference. A spare of which nobody else knows anything is
//! as good as one that is still to be made. The numbers of names are arbitrary. And who can only find out
//! that something is gone for good might as well have found it out already.

use super::state::{
    ABSENT, ACQUISITIONS_MAX, At, CONTENDERS_MAX, Contender, NO_FOLDER, NOWHERE, Nonce, SPARES,
    Slot, State, above, bits, listing, nonce, seen, spare, split,
};

/// The order in which a symmetric state lists the contenders: `order[new] = old`.
pub(crate) type Order = [usize; CONTENDERS_MAX];

impl State {
    /// True while all that a contender can do next is to find that a folder or directory is gone for good.
    /// Names of folders that are gone are taken off its list.
    pub(crate) fn acts_in_vain(&mut self, who: usize) -> bool {
        let me = self.contenders[who];
        let is_gone = |nonce: Nonce| self.folder(nonce).at == NOWHERE;
        match me.at {
            At::MakeOwn | At::ClearRead | At::CleanRead => me.dir == NOWHERE,
            At::ClearUnlink | At::CleanUnlink | At::CleanResolveAgain | At::CleanRemoveOwn => {
                is_gone(me.dir)
            }
            At::CreateTicket | At::ResolveTicket | At::RenameTicket => {
                is_gone(nonce(who, usize::from(me.which)))
            }
            At::ClearResolve | At::CleanResolve => {
                let there = bits(me.left).filter(|&nonce| !is_gone(nonce));
                let there = there.fold(0, |mask, nonce| mask | 1 << nonce);
                let one = 1 << me.left.trailing_zeros();
                self.contenders[who].left = if there == 0 { one } else { there };
                there == 0
            }
            _ => false,
        }
    }

    /// The names of folders that somebody goes by, or has found the folder of; one bit for each.
    pub(crate) fn known(&self) -> u32 {
        let of = |(who, contender): (usize, &Contender)| {
            let mut known = 0;
            if contender.which != NO_FOLDER {
                known |= 1 << nonce(who, usize::from(contender.which));
            }
            if contender.at.holds_own_folder() {
                known |= 1 << contender.dir;
            }
            if !contender.at.is_listing() {
                known |= contender.left;
            }
            known
        };
        let contenders = self.contenders.iter().enumerate();
        contenders.map(of).fold(0, |mask, known| mask | known)
    }

    /// The same state with the contenders in an order that does not depend on their names, as far as what
    /// each of them did tells them apart. Contenders are alike, so the search needs one of the orders only.
    pub(crate) fn in_order(&self, contenders: usize) -> (Self, Order) {
        let simple = self.simplified();
        let keys: [_; CONTENDERS_MAX] = std::array::from_fn(|who| {
            let contender = &simple.contenders[who];
            let key = contender.sort_key(who);
            (key, contender.pack_names(), simple.has(spare(who)))
        });
        let mut order: Order = std::array::from_fn(|i| i);
        order[..contenders].sort_by_key(|&i| keys[i]);
        let mut sorted = simple;
        if order.is_sorted() {
            return (sorted, order);
        }
        let mut new_of = Order::default();
        for (new, &old) in order.iter().enumerate() {
            new_of[old] = new;
            sorted.contenders[new] = simple.contenders[old];
        }
        sorted.present = bits(simple.present)
            .map(|slot| with_spare(slot, |who| spare(new_of[who])))
            .fold(0, |mask, slot| mask | 1 << slot);
        for contender in &mut sorted.contenders {
            if contender.at.holds_own_folder() && contender.dir != NOWHERE {
                let (who, which) = split(contender.dir);
                contender.dir = nonce(new_of[who], which);
            }
            contender.rename_spares(|who| spare(new_of[who]));
            if !contender.at.is_listing() {
                contender.left = renamed(contender.left, new_of);
            }
        }
        (sorted, order)
    }

    /// The same state without private spares, and with numbers of names that depend on the state alone.
    fn simplified(&self) -> Self {
        let mut simple = *self;
        let known = self.known();
        for who in 0..self.contenders.len() {
            let slot = spare(who);
            let folders = self.folders_in(slot);
            let is_private = self.has(slot)
                && folders.is_power_of_two()
                && folders & known == 0
                && bits(folders).all(|name| split(name).0 == who)
                && (self.contenders.iter()).all(|c| !c.at.holds_generation() || c.dir != slot);
            if is_private {
                simple.present &= !(1 << slot);
                for folder in &mut simple.contenders[who].folders {
                    if folder.at == slot {
                        *folder = ABSENT;
                    }
                }
            }
        }
        for who in 0..CONTENDERS_MAX {
            simple.sort_names(who, known);
            simple.contenders[who].simplify();
        }
        simple
    }

    fn sort_names(&mut self, who: usize, known: u32) {
        let folders = self.contenders[who].folders;
        let keys: [_; ACQUISITIONS_MAX] = std::array::from_fn(|which| {
            let folder = folders[which];
            let is_known = known & (1 << nonce(who, which)) != 0;
            let at = with_spare(folder.at, |whose| spare(usize::from(whose != who)));
            (folder.at == NOWHERE && !is_known, at, folder.ticket as u8)
        });
        if keys.is_sorted() {
            return;
        }
        let mut order: [usize; ACQUISITIONS_MAX] = std::array::from_fn(|i| i);
        order.sort_by_key(|&which| keys[which]);
        let mut new_of = [0; ACQUISITIONS_MAX];
        for (new, &old) in order.iter().enumerate() {
            new_of[old] = new;
            self.contenders[who].folders[new] = folders[old];
        }
        let which = &mut self.contenders[who].which;
        if *which != NO_FOLDER {
            *which = u8::try_from(new_of[usize::from(*which)]).unwrap_or(NO_FOLDER);
        }
        let renamed = |name| {
            let (whose, which) = split(name);
            nonce(whose, if whose == who { new_of[which] } else { which })
        };
        for contender in &mut self.contenders {
            if contender.at.holds_own_folder() {
                contender.dir = renamed(contender.dir);
            }
            if !contender.at.is_listing() {
                contender.left = bits(contender.left).fold(0, |mask, n| mask | 1 << renamed(n));
            }
        }
    }
}

impl Contender {
    /// Forgets what makes no difference to it any more.
    fn simplify(&mut self) {
        match self.at {
            // It looks for what is above its own generation, and only for whether there is anything.
            At::ListAgainEnd => {
                let (all, any) = seen(self.left);
                let above = above(self.generation);
                self.left = listing(all & above, if any & above == 0 { 0 } else { above });
            }
            // It publishes nothing any more.
            At::OutOfBounds => (self.acknowledged, self.published) = (0, 0),
            _ => {}
        }
    }

    /// Gives directories of spares other numbers.
    fn rename_spares(&mut self, number: impl Fn(usize) -> Slot) {
        if self.at.holds_generation() {
            self.dir = with_spare(self.dir, &number);
        }
        for folder in &mut self.folders {
            folder.at = with_spare(folder.at, &number);
        }
    }

    /// All of it but what names other contenders.
    fn sort_key(&self, who: usize) -> u64 {
        let mut key = *self;
        key.rename_spares(|whose| spare(usize::from(whose != who)));
        if key.at.holds_own_folder() {
            key.dir = NOWHERE;
        }
        if !key.at.is_listing() {
            key.left = 0;
        }
        key.pack()
    }
}

/// A slot with its number changed if it is that of a spare.
fn with_spare(slot: Slot, number: impl Fn(usize) -> Slot) -> Slot {
    match slot.checked_sub(SPARES).map(usize::from) {
        Some(who) if who < CONTENDERS_MAX => number(who),
        _ => slot,
    }
}

fn renamed(nonces: u32, new_of: Order) -> u32 {
    bits(nonces).fold(0, |mask, old| {
        let (who, which) = split(old);
        mask | 1 << nonce(new_of[who], which)
    })
}
