//! The Merkle tree of RFC 6962: a leaf hashes with the prefix byte 0, a node with 1.

use durable::digest::{Digest, Sha256, sha256};

use super::leaf::Leaf;

/// A growing tree, kept as the roots of its perfect subtrees: 32 bytes for each bit of its size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontier {
    size: u64,
    /// Largest subtree first.
    subtrees: Vec<Digest>,
}

impl Frontier {
    /// The tree of these leaves.
    pub fn of(leaves: &[Leaf]) -> Self {
        let mut tree = Self::default();
        for leaf in leaves {
            tree.push(&leaf.encode());
        }
        tree
    }

    /// Adds a leaf.
    pub fn push(&mut self, leaf: &[u8]) {
        let mut node = prefixed(0, leaf, &[]);
        // Each low set bit of the size is a perfect subtree that the new leaf completes.
        for _ in 0..self.size.trailing_ones() {
            let left = self.subtrees.pop().unwrap_or_default();
            node = prefixed(1, &left, &node);
        }
        self.subtrees.push(node);
        self.size += 1;
    }

    /// How many leaves it has.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Its root; of no leaves, the digest of nothing.
    pub fn root(&self) -> Digest {
        let mut subtrees = self.subtrees.iter().rev();
        let Some(smallest) = subtrees.next() else {
            return sha256(&[]);
        };
        subtrees.fold(*smallest, |right, left| prefixed(1, left, &right))
    }
}

fn prefixed(prefix: u8, left: &[u8], right: &[u8]) -> Digest {
    let mut hasher = Sha256::default();
    hasher.update(&[prefix]);
    hasher.update(left);
    hasher.update(right);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, word for word from RFC 6962, section 2.1.
    fn tree_hash(leaves: &[Vec<u8>]) -> Digest {
        match leaves {
            [] => sha256(&[]),
            [leaf] => prefixed(0, leaf, &[]),
            _ => {
                let split = leaves.len().next_power_of_two() / 2;
                let (left, right) = leaves.split_at(split);
                prefixed(1, &tree_hash(left), &tree_hash(right))
            }
        }
    }

    #[test]
    fn the_root_is_the_one_of_the_recursive_definition_at_every_size() {
        let mut tree = Frontier::default();
        let mut leaves = Vec::new();
        assert_eq!(tree.root(), tree_hash(&leaves));
        for number in 0..200u32 {
            let leaf = number.to_le_bytes().to_vec();
            tree.push(&leaf);
            leaves.push(leaf);
            assert_eq!(tree.root(), tree_hash(&leaves), "size {}", leaves.len());
        }
        assert_eq!(tree.size(), 200);
    }
}
