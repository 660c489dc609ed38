//! The signed note: C2SP signed-note around a C2SP tlog-checkpoint, Ed25519, no extension lines.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use durable::digest::{Digest, hex, sha256};

use crate::journal::PublicKey;

/// The longest note that is read, in bytes.
pub const NOTE_LEN_MAX: u64 = 64 * 1024;
/// The most signature lines that a note may have.
const SIGNATURES_MAX: usize = 100;
/// The longest origin that is written or read, in bytes.
const ORIGIN_LEN_MAX: usize = 1024;
/// The signature type of Ed25519 in a key id and in a verifier key.
const ED25519: u8 = 1;
/// What a signature line starts with: an em dash and a space.
const SIGNATURE_MARK: &str = "\u{2014} ";

/// A signed note about the first `size` leaves of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The name of the run, and of the keys that sign for it.
    pub origin: String,
    /// How many leaves it covers.
    pub size: u64,
    /// The root of their tree.
    pub root: Digest,
    /// Its signature lines, in order.
    pub signatures: Vec<NoteSignature>,
}

/// One signature line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteSignature {
    /// Name of the key.
    pub name: String,
    /// First bytes of a digest over name, type and public key.
    pub key_id: [u8; 4],
    /// What the key made of the text: 64 bytes for Ed25519, other lengths for types that this
    /// build does not know.
    pub signature: Vec<u8>,
}

/// Why a text is not a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoteError(pub(super) &'static str);

impl Note {
    /// Reads a note. The form is exact: what is read is, byte for byte, what [`to_text`](Self::to_text)
    /// writes.
    pub fn parse(bytes: &[u8]) -> Result<Self, NoteError> {
        if bytes.len() as u64 > NOTE_LEN_MAX {
            return Err(NoteError("longer than a note may be"));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| NoteError("not UTF-8"))?;
        if text.chars().any(|c| c < ' ' && c != '\n') {
            return Err(NoteError("a control character"));
        }
        let (body, signed) = text
            .split_once("\n\n")
            .ok_or(NoteError("no blank line before the signatures"))?;
        let mut lines = body.split('\n');
        let origin = lines.next().filter(|origin| is_origin(origin));
        let size = lines.next().and_then(|line| line.parse().ok());
        let root = lines.next().and_then(|line| STANDARD.decode(line).ok());
        if lines.next().is_some() {
            return Err(NoteError("more than origin, size and root"));
        }
        let lines = signed
            .strip_suffix('\n')
            .ok_or(NoteError("the last line is not ended"))?;
        if lines.split('\n').count() > SIGNATURES_MAX {
            return Err(NoteError("more signatures than a note may have"));
        }
        let signatures: Option<Vec<_>> = lines.split('\n').map(NoteSignature::parse).collect();
        let note = Self {
            origin: origin.ok_or(NoteError("no origin"))?.to_owned(),
            size: size.ok_or(NoteError("no size"))?,
            root: root
                .and_then(|root| Digest::try_from(root).ok())
                .ok_or(NoteError("no root of 32 bytes"))?,
            signatures: signatures.ok_or(NoteError("a line that is no signature"))?,
        };
        if note.to_text() != text {
            return Err(NoteError(
                "a number or base64 text in another than its one form",
            ));
        }
        Ok(note)
    }

    /// The part that is signed.
    pub fn signed_text(&self) -> String {
        let root = STANDARD.encode(self.root);
        format!("{}\n{}\n{root}\n", self.origin, self.size)
    }

    /// The whole note.
    pub fn to_text(&self) -> String {
        let mut text = self.signed_text();
        text.push('\n');
        for line in &self.signatures {
            let blob = [&line.key_id[..], &line.signature].concat();
            let blob = STANDARD.encode(blob);
            text.extend([SIGNATURE_MARK, &line.name, " ", &blob, "\n"]);
        }
        text
    }

    /// Whether `key` signed: `None` when no line is by it, else whether all such lines are good.
    pub fn signature_of(&self, key: PublicKey) -> Option<bool> {
        let id = key_id(&self.origin, key);
        let mut lines = self
            .signatures
            .iter()
            .filter(|line| line.claims(&self.origin, id))
            .peekable();
        lines.peek()?;
        let text = self.signed_text();
        Some(lines.all(|line| {
            let signature = <[u8; 64]>::try_from(line.signature.as_slice());
            signature.is_ok_and(|signature| key.verifies(text.as_bytes(), &signature))
        }))
    }

    /// A note signed by one key.
    #[cfg(feature = "signing")]
    pub(super) fn sign(
        origin: &str,
        tree: &super::Frontier,
        signer: &crate::journal::JournalSigner,
    ) -> Self {
        let mut note = Self {
            origin: origin.to_owned(),
            size: tree.size(),
            root: tree.root(),
            signatures: Vec::new(),
        };
        let signature = signer.sign(note.signed_text().as_bytes()).to_vec();
        note.signatures.push(NoteSignature {
            name: origin.to_owned(),
            key_id: key_id(origin, signer.public_key()),
            signature,
        });
        note
    }
}

impl NoteSignature {
    fn parse(line: &str) -> Option<Self> {
        let (name, blob) = line.strip_prefix(SIGNATURE_MARK)?.split_once(' ')?;
        let blob = STANDARD.decode(blob).ok()?;
        let (key_id, signature) = blob.split_first_chunk::<4>()?;
        (is_origin(name) && !signature.is_empty()).then(|| Self {
            name: name.to_owned(),
            key_id: *key_id,
            signature: signature.to_vec(),
        })
    }

    /// True when the line says that it is by the key with this name and id.
    pub(super) fn claims(&self, name: &str, key_id: [u8; 4]) -> bool {
        self.name == name && self.key_id == key_id
    }
}

/// The id that a key has under a name: the first bytes of SHA-256(name, newline, type, key).
pub fn key_id(origin: &str, key: PublicKey) -> [u8; 4] {
    let message = [origin.as_bytes(), &[b'\n', ED25519], &key.to_bytes()].concat();
    let digest = sha256(&message);
    digest.first_chunk().copied().unwrap_or_default()
}

/// The key in the form that other signed-note tools take: `name+id+base64`.
pub fn verifier_key(origin: &str, key: PublicKey) -> String {
    let id = hex(&key_id(origin, key));
    let typed = [&[ED25519], &key.to_bytes()[..]].concat();
    format!("{origin}+{id}+{}", STANDARD.encode(typed))
}

/// The origin of a run that was given no other: `host/omni/name-time`, from the name of segment 0
/// without its extension and the creation time in its header, in hexadecimal.
pub fn default_origin(host: &str, base: &Path, created_wall_ns: u64) -> String {
    let stem = base.file_stem().unwrap_or_default().to_string_lossy();
    let plain = |text: &str, slash: bool| -> String {
        let keeps = |c: char| {
            c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') || (slash && c == '/')
        };
        text.chars()
            .map(|c| if keeps(c) { c } else { '-' })
            .collect()
    };
    let host = if host.is_empty() { "localhost" } else { host };
    let (host, stem) = (plain(host, true), plain(&stem, false));
    format!("{host}/omni/{stem}-{created_wall_ns:x}")
}

/// True for a name that signed notes allow: not empty, no space, no plus, no control character.
pub(super) fn is_origin(name: &str) -> bool {
    let forbidden = |c: char| c.is_whitespace() || c.is_control() || c == '+';
    !name.is_empty() && name.len() <= ORIGIN_LEN_MAX && !name.contains(forbidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note() -> Note {
        let line = |name: &str, len| NoteSignature {
            name: name.to_owned(),
            key_id: [1, 2, 3, 4],
            signature: vec![7; len],
        };
        Note {
            origin: "host/omni/run-1f".to_owned(),
            size: 10,
            root: [5; 32],
            signatures: vec![line("host/omni/run-1f", 64), line("witness.example", 72)],
        }
    }

    #[test]
    fn a_note_parses_to_what_was_written() {
        assert_eq!(Note::parse(note().to_text().as_bytes()), Ok(note()));
    }

    #[test]
    fn a_note_in_any_other_form_is_refused() {
        let text = note().to_text();
        let (body, lines) = text.split_once("\n\n").unwrap();
        let changed = |from: &str, to: &str| text.replacen(from, to, 1);
        let many = format!("{body}\n\n{}", lines.repeat(51));
        let long = format!("{text}{}", " ".repeat(65 << 10));
        for (other, why) in [
            (String::new(), "empty"),
            (body.to_owned(), "no signatures"),
            (format!("{body}\n\n"), "an empty signature block"),
            (text.trim_end().to_owned(), "no newline at the end"),
            (format!("{text}\n"), "a blank line at the end"),
            (changed("\n10\n", "\n010\n"), "a leading zero"),
            (changed("\n10\n", "\n+10\n"), "a sign"),
            (changed("\n10\n", "\n-1\n"), "a negative size"),
            (
                changed("\n10\n", "\n18446744073709551616\n"),
                "a size over 64 bits",
            ),
            (changed("\n10\n", "\n10\r\n"), "a carriage return"),
            (changed("BQU=\n", "BQV=\n"), "bits left over in the root"),
            (changed("BQU=\n", "BQU\n"), "no padding"),
            (
                changed("BQU=\n\n", "BQU=\nextension\n\n"),
                "an extension line",
            ),
            (changed("host/omni/run-1f\n", "\n"), "no origin"),
            (
                changed("host/omni/run-1f\n", "a b\n"),
                "a space in the origin",
            ),
            (changed("\u{2014} ", "- "), "another dash"),
            (many, "too many signatures"),
            (long, "too long"),
        ] {
            assert!(Note::parse(other.as_bytes()).is_err(), "{why}: {other:.80}");
        }
        assert!(Note::parse(b"\xff\n\n").is_err());
    }

    #[test]
    fn the_default_origin_holds_nothing_that_a_key_name_forbids() {
        let origin = default_origin("my host+1", Path::new("runs/ä b+c.v2.omni"), 255);
        assert_eq!(origin, "my-host-1/omni/--b-c.v2-ff");
        assert!(is_origin(&origin));
        assert_eq!(
            default_origin("", Path::new("run"), 0),
            "localhost/omni/run-0"
        );
    }
}
