//! Telemetry as typed columns: which variables there are, and what each of them always is.

use std::collections::HashMap;

use serde_json::Value;

use super::{COLUMNS_MAX, ExportError, Exported, Selection, each_selected, flatten, number_of};
use crate::journal::{FrameKind, FrameRef, SegmentedPlayer};

/// What all values of a variable are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// True or false.
    Bool,
    /// Whole numbers from -2^63 to 2^63 - 1.
    Int,
    /// Numbers, with NaN and the infinities.
    Float,
    /// Texts; of a variable that is now this and now that, the JSON of what is no text.
    Text,
}

/// A variable of the telemetry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, as [`flatten()`] gives it.
    pub name: String,
    /// What its values are.
    pub kind: ColumnKind,
}

/// A value of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Of [`ColumnKind::Bool`].
    Bool(bool),
    /// Of [`ColumnKind::Int`].
    Int(i64),
    /// Of [`ColumnKind::Float`].
    Float(f64),
    /// Of [`ColumnKind::Text`].
    Text(String),
}

/// All columns of the selected telemetry, in the order of their first appearance.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    all: Vec<Column>,
    /// Whether anything but null was seen.
    is_known: Vec<bool>,
    places: HashMap<String, usize>,
}

impl Columns {
    /// Reads all selected telemetry once, and answers what it came to besides.
    ///
    /// # Errors
    /// `TooManyColumns`. Damage of the journal is in the result.
    pub fn learn(
        player: &mut SegmentedPlayer,
        selection: &Selection,
    ) -> Result<(Self, Exported), ExportError> {
        let only = Selection {
            kinds: vec![FrameKind::Telemetry],
            ..selection.clone()
        };
        let mut columns = Self::default();
        let exported = each_selected(player, &only, u64::MAX, |_, frame| columns.add(frame))?;
        Ok((columns, exported))
    }

    /// The columns.
    pub fn all(&self) -> &[Column] {
        &self.all
    }

    /// Calls `take` with every value of a record that has a column, and the column's place. A payload that is no JSON has
    /// none.
    pub fn cells(&self, payload: &[u8], take: &mut dyn FnMut(usize, Cell)) {
        let Ok(value) = serde_json::from_slice::<Value>(payload) else {
            return;
        };
        flatten(&value, &mut |name, value| {
            let Some(place) = self.places.get(name) else {
                return;
            };
            let kind = self.all.get(*place).map(|column| column.kind);
            if let Some(cell) = kind.and_then(|kind| cell_of(kind, value)) {
                take(*place, cell);
            }
        });
    }

    fn add(&mut self, frame: &FrameRef<'_>) -> Result<(), ExportError> {
        let Ok(value) = serde_json::from_slice::<Value>(frame.payload) else {
            return Ok(());
        };
        flatten(&value, &mut |name, value| {
            let place = match self.places.get(name) {
                Some(place) => *place,
                // One more than there may be, to be refused below.
                None if self.all.len() > COLUMNS_MAX => return,
                None => {
                    let place = self.all.len();
                    self.places.insert(name.to_owned(), place);
                    self.all.push(Column {
                        name: name.to_owned(),
                        kind: ColumnKind::Text,
                    });
                    self.is_known.push(false);
                    place
                }
            };
            let Some(kind) = kind_of(value) else {
                return;
            };
            let (column, is_known) = (self.all.get_mut(place), self.is_known.get_mut(place));
            if let (Some(column), Some(is_known)) = (column, is_known) {
                column.kind = if *is_known {
                    both(column.kind, kind)
                } else {
                    kind
                };
                *is_known = true;
            }
        });
        if self.all.len() > COLUMNS_MAX {
            return Err(ExportError::TooManyColumns { max: COLUMNS_MAX });
        }
        Ok(())
    }
}

/// What one value is; nothing for null.
fn kind_of(value: &Value) -> Option<ColumnKind> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(_) => ColumnKind::Bool,
        Value::Number(number) if number.as_i64().is_some() => ColumnKind::Int,
        _ if number_of(value).is_some() => ColumnKind::Float,
        _ => ColumnKind::Text,
    })
}

fn both(a: ColumnKind, b: ColumnKind) -> ColumnKind {
    match (a, b) {
        _ if a == b => a,
        (ColumnKind::Int | ColumnKind::Float, ColumnKind::Int | ColumnKind::Float) => {
            ColumnKind::Float
        }
        _ => ColumnKind::Text,
    }
}

fn cell_of(kind: ColumnKind, value: &Value) -> Option<Cell> {
    Some(match (kind, value) {
        (_, Value::Null) => return None,
        (ColumnKind::Bool, value) => Cell::Bool(value.as_bool()?),
        (ColumnKind::Int, value) => Cell::Int(value.as_i64()?),
        (ColumnKind::Float, value) => Cell::Float(number_of(value)?),
        (ColumnKind::Text, Value::String(text)) => Cell::Text(text.clone()),
        (ColumnKind::Text, other) => Cell::Text(other.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_column_is_what_all_of_its_values_are() {
        let kind = |values: &[Value]| values.iter().filter_map(kind_of).reduce(both);
        assert_eq!(kind(&[json!(1), json!(-2)]), Some(ColumnKind::Int));
        assert_eq!(kind(&[json!(1), json!("NaN")]), Some(ColumnKind::Float));
        assert_eq!(kind(&[json!(u64::MAX)]), Some(ColumnKind::Float));
        assert_eq!(kind(&[json!(true), json!(null)]), Some(ColumnKind::Bool));
        assert_eq!(kind(&[json!(true), json!(1)]), Some(ColumnKind::Text));
        assert_eq!(kind(&[json!("a"), json!([])]), Some(ColumnKind::Text));
        assert_eq!(kind(&[json!(null)]), None);
    }

    #[test]
    fn a_value_of_a_text_column_that_is_no_text_is_its_json() {
        let text = |value| cell_of(ColumnKind::Text, &value);
        assert_eq!(text(json!([])), Some(Cell::Text("[]".to_owned())));
        assert_eq!(text(json!(true)), Some(Cell::Text("true".to_owned())));
        assert_eq!(text(json!("a")), Some(Cell::Text("a".to_owned())));
        assert_eq!(text(json!(null)), None);
        let infinite = cell_of(ColumnKind::Float, &json!("-Infinity"));
        assert_eq!(infinite, Some(Cell::Float(f64::NEG_INFINITY)));
    }
}
