//! The arithmetic of the format against vectors: known inputs with the bytes that they must give.
//! The data files lie beside the modules.
// Each module is marked as a test, so that its helpers may unwrap like the tests themselves.

#[cfg(test)]
mod bytes;
#[cfg(test)]
mod canonical;
#[cfg(test)]
mod payloads;
#[cfg(test)]
mod segments;
#[cfg(test)]
mod words;

#[cfg(test)]
/// A data file of this folder.
macro_rules! vectors {
    ($name:literal) => {
        serde_json::from_str::<serde_json::Value>(include_str!(concat!($name, ".json"))).unwrap()
    };
}
#[cfg(test)]
use vectors;

#[cfg(test)]
/// The items of the array under `name`.
fn items<'a>(value: &'a serde_json::Value, name: &str) -> &'a [serde_json::Value] {
    let items = value[name].as_array().unwrap();
    assert!(!items.is_empty(), "{name}");
    items
}

#[cfg(test)]
/// The text under `name`.
fn text<'a>(value: &'a serde_json::Value, name: &str) -> &'a str {
    value[name].as_str().unwrap()
}

#[cfg(test)]
/// The bytes under `name`, which are written in hexadecimal.
fn bytes_of(value: &serde_json::Value, name: &str) -> Vec<u8> {
    durable::digest::from_hex(text(value, name)).unwrap()
}
