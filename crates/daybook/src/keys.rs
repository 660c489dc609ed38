//! Keys that the command line is given.

use std::path::Path;

use durable::{Fs as _, RealFs, read_all};
use omniloop_core::journal::{JournalSigner, PublicKey};

use crate::failure::{Failure, chain_text};

/// The longest key file that is read.
const KEY_LEN_MAX: u64 = 64 << 10;

/// The private key in a PEM file.
pub(crate) fn signer(path: &Path) -> Result<JournalSigner, Failure> {
    JournalSigner::from_pem(&read(path)?).map_err(|error| {
        Failure::new(format!("{}: {}", path.display(), chain_text(&error)))
            .with_hint("`daybook key new -o k.pem` makes a private key")
    })
}

/// A public key: 64 hexadecimal digits, or a PEM file with the private or the public half.
pub(crate) fn public(text: &str) -> Result<PublicKey, Failure> {
    let path = Path::new(text);
    if RealFs.exists(path).unwrap_or(false) {
        let pem = read(path)?;
        return PublicKey::parse(&pem)
            .map_err(|error| Failure::new(format!("{text}: {}", chain_text(&error))));
    }
    let is_hex = text.len() == 64 && text.chars().all(|c| c.is_ascii_hexdigit());
    if !is_hex {
        let what = format!("{text} is neither a file nor a public key of 64 hexadecimal digits");
        return Err(
            Failure::new(what).with_hint("`daybook key show k.pem` shows a key in both forms")
        );
    }
    PublicKey::parse(text).map_err(Failure::from)
}

pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let bytes = read_all(&RealFs, path, KEY_LEN_MAX)
        .map_err(|error| Failure::io(&format!("cannot read {shown}"), &error))?;
    String::from_utf8(bytes).map_err(|_| Failure::new(format!("{shown} is not a text file")))
}
