//! What a study has shown: the best so far, the front and what it dominates, which parameters matter.

mod hypervolume;
pub mod importance;
mod pareto;
mod series;

pub use hypervolume::hypervolume;
pub use pareto::pareto_front;
pub use series::{Point, best_so_far, hypervolume_so_far, reference_point};
