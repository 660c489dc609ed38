//! The search: breadth first over every state that the bounds allow, so that the first fault found is one
//! that takes the fewest steps.

use std::fmt::Write as _;
use std::hint::black_box;

use super::protocol::{Fault, Step, has_two_owners, largest, settle, steps, steps_of};
use super::rules::Rules;
use super::state::{At, CONTENDERS_MAX, Packed, State, split};

const ROOT: u32 = u32::MAX;
const FREE: (u32, u32) = (0, u32::MAX);
/// States whose steps are gone through together.
const BLOCK: usize = 64;

pub(crate) struct Search {
    rules: Rules,
    states: Vec<Packed>,
    /// From which state each was reached first.
    parents: Vec<u32>,
    /// Open addressing: hash and number of each state.
    table: Vec<(u32, u32)>,
    pub(crate) steps: u64,
}

/// A way to a fault, from the beginning.
pub(crate) struct Counterexample {
    pub(crate) fault: Fault,
    pub(crate) trace: String,
}

impl Search {
    /// Goes through all states until `is_fault` calls something a fault.
    pub(crate) fn run(
        rules: &Rules,
        is_fault: fn(Option<Fault>, &State) -> Option<Fault>,
    ) -> Result<Self, Counterexample> {
        let mut search = Self {
            rules: *rules,
            states: Vec::new(),
            parents: Vec::new(),
            table: vec![FREE; 1 << 16],
            steps: 0,
        };
        search.insert(initial(rules).in_order(rules.contenders).0.pack(), ROOT);
        let mut next = Vec::new();
        let mut reached = Vec::new();
        let mut at = 0;
        while at < search.states.len() {
            let end = search.states.len().min(at + BLOCK);
            for number in at..end {
                let from = u32::try_from(number).expect("the bounds keep the search small");
                steps(rules, &State::unpack(&search.states[number]), &mut next);
                search.steps += next.len() as u64;
                for step in &mut next {
                    let fault = is_fault(step.fault, &step.next);
                    settle(rules, &mut step.next);
                    let packed = step.next.in_order(rules.contenders).0.pack();
                    if let Some(fault) = fault {
                        let trace = search.trace(from, Some(packed));
                        return Err(Counterexample { fault, trace });
                    }
                    reached.push((packed, from));
                }
            }
            search.insert_all(&mut reached);
            at = end;
        }
        Ok(search)
    }

    pub(crate) fn states(&self) -> usize {
        self.states.len()
    }

    /// From every state, every contender that has something to publish and bounds left must be able to
    /// publish it although all others have stopped for ever.
    pub(crate) fn assert_progress(&self) -> Result<(), Counterexample> {
        let contenders = self.rules.contenders;
        let mut can_finish = vec![0_u8; self.states.len()];
        let mut next = Vec::new();
        let mut changed = true;
        while changed {
            changed = false;
            // Most steps lead to states that were found later: backwards, few rounds suffice.
            for (index, packed) in self.states.iter().enumerate().rev() {
                if can_finish[index] == (1 << contenders) - 1 {
                    continue;
                }
                let state = State::unpack(packed);
                for who in 0..contenders {
                    if can_finish[index] & (1 << who) != 0 {
                        continue;
                    }
                    next.clear();
                    steps_of(&self.rules, &state, who, &mut next);
                    for step in &mut next {
                        settle(&self.rules, &mut step.next);
                    }
                    let is_done = state.contenders[who].acknowledged == self.rules.operations;
                    if is_done || next.iter().any(|step| self.leads_on(step, &can_finish)) {
                        can_finish[index] |= 1 << who;
                        changed = true;
                    }
                }
            }
        }
        for (index, packed) in self.states.iter().enumerate() {
            let state = State::unpack(packed);
            for who in 0..contenders {
                if self.must_finish(&state, who) && can_finish[index] & (1 << who) == 0 {
                    let from = u32::try_from(index).expect("the bounds keep the search small");
                    return Err(Counterexample {
                        fault: Fault::Stuck,
                        trace: self.trace(from, None),
                    });
                }
            }
        }
        Ok(())
    }

    fn leads_on(&self, step: &Step, can_finish: &[u8]) -> bool {
        let (next, order) = step.next.in_order(self.rules.contenders);
        let who = order.iter().position(|&old| old == step.who);
        let mask = who.map_or(0, |who| 1 << who);
        can_finish[self.find(&next.pack())] & mask != 0
    }

    /// An attempt under way may be in vain, and then takes one more acquisition, and one more generation if
    /// the head has changed since it began.
    fn must_finish(&self, state: &State, who: usize) -> bool {
        let contender = state.contenders[who];
        let largest = largest(state.present).map_or(0, |slot| slot / 2 + 1);
        let is_in_vain = contender.at != At::ReadHeadFirst && !contender.is_fresh;
        contender.at != At::OutOfBounds
            && contender.acquisitions + 1 < self.rules.acquisitions
            && largest + u8::from(is_in_vain) < self.rules.generations
    }

    fn insert_all(&mut self, reached: &mut Vec<(Packed, u32)>) {
        // The table is larger than any cache: asked for all places at once, the memory answers faster.
        let mask = self.table.len() - 1;
        let places = reached
            .iter()
            .map(|(packed, _)| hash(packed) as usize & mask);
        let free = places.filter(|&place| self.table[place] == FREE).count();
        self.states.reserve(black_box(free));
        for (packed, parent) in reached.drain(..) {
            self.insert(packed, parent);
        }
    }

    fn insert(&mut self, packed: Packed, parent: u32) {
        let (hash, place) = self.place(&packed);
        if self.table[place] != FREE {
            return;
        }
        self.table[place] = (hash, u32::try_from(self.states.len()).expect("few enough"));
        self.states.push(packed);
        self.parents.push(parent);
        if 8 * self.states.len() > 7 * self.table.len() {
            self.grow();
        }
    }

    fn find(&self, packed: &Packed) -> usize {
        self.table[self.place(packed).1].1 as usize
    }

    /// Where a state is in the table, or belongs.
    fn place(&self, packed: &Packed) -> (u32, usize) {
        let hash = hash(packed);
        let is_it = |(found, number): (u32, u32)| {
            found == hash && self.states.get(number as usize) == Some(packed)
        };
        let mask = self.table.len() - 1;
        let mut place = hash as usize & mask;
        while self.table[place] != FREE && !is_it(self.table[place]) {
            place = (place + 1) & mask;
        }
        (hash, place)
    }

    fn grow(&mut self) {
        let larger = vec![FREE; 2 * self.table.len()];
        let mask = larger.len() - 1;
        let smaller = std::mem::replace(&mut self.table, larger);
        for entry in smaller.into_iter().filter(|&entry| entry != FREE) {
            let mut place = entry.0 as usize & mask;
            while self.table[place] != FREE {
                place = (place + 1) & mask;
            }
            self.table[place] = entry;
        }
    }

    /// The way to a state in words, and one step further. Kept states have their contenders in some order,
    /// so the way is gone again with names that stay.
    fn trace(&self, mut index: u32, last: Option<Packed>) -> String {
        let mut way: Vec<Packed> = last.into_iter().collect();
        while self.parents[index as usize] != ROOT {
            way.push(self.states[index as usize]);
            index = self.parents[index as usize];
        }
        let mut state = initial(&self.rules);
        let mut text = String::new();
        let mut next = Vec::new();
        for (number, packed) in way.iter().rev().enumerate() {
            steps(&self.rules, &state, &mut next);
            for step in &mut next {
                settle(&self.rules, &mut step.next);
            }
            let taken = next
                .iter()
                .find(|step| step.next.in_order(self.rules.contenders).0.pack() == *packed)
                .expect("the way was gone before");
            writeln!(text, "{:3}. {}", number + 1, sentence(taken)).expect("a string takes it");
            state = taken.next;
        }
        text
    }
}

fn initial(rules: &Rules) -> State {
    let mut state = State {
        lies: rules.lies,
        vanishing: rules.vanishing,
        ..State::default()
    };
    for contender in &mut state.contenders {
        contender.go(if rules.reads_head_first() {
            At::ReadHeadFirst
        } else {
            At::List
        });
    }
    state
}

fn sentence(step: &Step) -> String {
    let names = ['A', 'B', 'C'];
    let (owner, which) = split(step.nonce);
    let folder = names.get(owner).map_or(String::new(), |name| {
        format!("by-{}{}", name.to_ascii_lowercase(), which + 1)
    });
    let text = step.text.replace("{g}", &step.generation.to_string());
    format!("{} {}", names[step.who], text.replace("{by}", &folder))
}

/// What destroys or doubles operations.
pub(crate) fn loses(fault: Option<Fault>, _: &State) -> Option<Fault> {
    fault
}

/// That, and two leases in force at the same time.
pub(crate) fn loses_or_shares(fault: Option<Fault>, state: &State) -> Option<Fault> {
    fault.or(has_two_owners(state).then_some(Fault::TwoOwners))
}

fn hash(packed: &Packed) -> u32 {
    let mut hash = 0x9e37_79b9_7f4a_7c15_u64;
    for word in packed {
        hash = (hash ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash ^= hash >> 32;
    }
    u32::try_from(hash >> 32).unwrap_or(0)
}

const _: () = assert!(CONTENDERS_MAX == 3, "the names are three");
