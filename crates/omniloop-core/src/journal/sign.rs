//! Signatures over chain checkpoints. Checking them is always compiled; producing them sits behind
//! the feature `signing`.

use std::path::Path;

use durable::digest::{from_hex, hex, sha256};
use durable::{Finding, Fs, RealFs, Severity};
use ed25519_dalek::pkcs8::DecodePublicKey as _;
use ed25519_dalek::{Signature, VerifyingKey};
use serde::Serialize;

use super::error::{Error, Result};
use super::layout::SIGNATURE_PAYLOAD_LEN;
use super::verify::{ChainVerification, VerifyOptions, verify_chain_with};
use super::walk::{ChainPoint, Observer, SignatureSeen};

/// An Ed25519 public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// Reads a key from an SPKI PEM text, from the PKCS#8 PEM text of a private key, or from 64
    /// hexadecimal digits.
    ///
    /// # Errors
    /// `Key` when the text is none of these.
    pub fn parse(text: &str) -> Result<Self> {
        let unusable = |what: String| Error::Key { what };
        if text.contains("PRIVATE KEY") {
            use ed25519_dalek::pkcs8::DecodePrivateKey as _;
            return ed25519_dalek::SigningKey::from_pkcs8_pem(text.trim())
                .map(|key| Self(key.verifying_key()))
                .map_err(|e| unusable(format!("not an Ed25519 PKCS#8 PEM: {e}")));
        }
        if text.contains("PUBLIC KEY") {
            return VerifyingKey::from_public_key_pem(text.trim())
                .map(Self)
                .map_err(|e| unusable(format!("not an Ed25519 public key PEM: {e}")));
        }
        from_hex(text.trim())
            .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok())
            .ok_or_else(|| unusable("neither a PEM text nor 64 hexadecimal digits".to_owned()))
            .and_then(|bytes| Self::from_bytes(&bytes))
    }

    /// The key with these bytes.
    ///
    /// # Errors
    /// `Key` when they are no point of the curve.
    pub fn from_bytes(bytes: &[u8; 32]) -> Result<Self> {
        VerifyingKey::from_bytes(bytes)
            .map(Self)
            .map_err(|e| Error::Key {
                what: e.to_string(),
            })
    }

    /// Its 32 bytes.
    pub fn to_bytes(self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// A short name for it: the first eight bytes of its SHA-256, hex.
    pub fn id(self) -> String {
        let digest = sha256(&self.to_bytes());
        hex(digest.first_chunk::<8>().unwrap_or(&[0; 8]))
    }

    /// As SPKI PEM.
    ///
    /// # Errors
    /// `Key` when the encoder refuses.
    pub fn to_pem(self) -> Result<String> {
        use ed25519_dalek::pkcs8::EncodePublicKey as _;
        self.0
            .to_public_key_pem(ed25519_dalek::pkcs8::spki::der::pem::LineEnding::LF)
            .map_err(|e| Error::Key {
                what: e.to_string(),
            })
    }

    /// True when `signature` is this key's over `message`.
    pub fn verifies(self, message: &[u8], signature: &[u8; 64]) -> bool {
        self.0
            .verify_strict(message, &Signature::from_bytes(signature))
            .is_ok()
    }
}

/// One key that signed in a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Signer {
    /// The public key, hex.
    pub key: String,
    /// Its short name.
    pub id: String,
    /// Whether the caller trusts it.
    pub trusted: bool,
    /// Good signatures by it.
    pub signatures: u64,
    /// Records of the file, from its start, that its last good signature covers.
    pub covers: u64,
}

/// The result of verifying one file's chain and signatures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SignatureVerification {
    /// The chain's own result.
    #[serde(flatten)]
    pub chain: ChainVerification,
    /// Who signed.
    pub signers: Vec<Signer>,
    /// Signature records that are not what they claim.
    pub bad_signatures: u64,
    /// Records, from the start of the file, that the last good signature of a trusted key covers.
    pub trusted_covers: Option<u64>,
    /// True when the closing checkpoint carries a good signature of a trusted key.
    pub closing_is_trusted: bool,
}

/// Verifies one file's chain and every signature in it. Keys that are not among `trusted` are named,
/// and prove only that someone who held them signed.
///
/// # Errors
/// As [`verify_chain`](super::verify_chain).
pub fn verify_signed(
    path: impl AsRef<Path>,
    trusted: &[PublicKey],
) -> Result<SignatureVerification> {
    verify_signed_with(
        &RealFs,
        path.as_ref(),
        trusted,
        VerifyOptions::default(),
        &mut (),
    )
}

/// [`verify_signed`] on a given file system, telling `observer` what is proved on the way.
pub fn verify_signed_with(
    fs: &dyn Fs,
    path: &Path,
    trusted: &[PublicKey],
    options: VerifyOptions,
    observer: &mut dyn Observer,
) -> Result<SignatureVerification> {
    let mut judge = Judge {
        path,
        trusted,
        observer,
        signers: Vec::new(),
        findings: Vec::new(),
        last_checkpoint: 0,
    };
    let mut chain = verify_chain_with(fs, path, options, &mut judge)?;
    let Judge {
        signers,
        findings,
        last_checkpoint,
        ..
    } = judge;
    let bad_signatures = findings.len() as u64;
    chain.ok &= findings.is_empty();
    chain.findings.extend(findings);
    let trusted_covers = signers.iter().filter(|s| s.trusted).map(|s| s.covers).max();
    Ok(SignatureVerification {
        bad_signatures,
        closing_is_trusted: chain.finalized && trusted_covers == Some(last_checkpoint),
        trusted_covers,
        signers,
        chain,
    })
}

/// Checks signatures while the chain walk goes by.
struct Judge<'a> {
    path: &'a Path,
    trusted: &'a [PublicKey],
    observer: &'a mut dyn Observer,
    signers: Vec<Signer>,
    findings: Vec<Finding>,
    last_checkpoint: u64,
}

impl Judge<'_> {
    fn good(&mut self, key: PublicKey, covers: u64) {
        let text = hex(&key.to_bytes());
        let trusted = self.trusted.contains(&key);
        match self.signers.iter_mut().find(|signer| signer.key == text) {
            Some(signer) => {
                signer.signatures += 1;
                signer.covers = covers;
            }
            None => {
                self.signers.push(Signer {
                    key: text,
                    id: key.id(),
                    trusted,
                    signatures: 1,
                    covers,
                });
            }
        }
    }
}

/// The key that made a signature record, and how many records it covers.
fn check(seen: &SignatureSeen) -> std::result::Result<(PublicKey, u64), &'static str> {
    let payload = seen
        .payload
        .as_ref()
        .ok_or("its payload is not a key and a signature")?;
    let point = seen
        .covers
        .as_ref()
        .ok_or("it does not follow a chain checkpoint")?;
    let (key, signature) = split(payload).ok_or("its payload is not a key and a signature")?;
    let key = PublicKey::from_bytes(key).map_err(|_| "its public key is not one")?;
    if !key.verifies(&point.value, signature) {
        return Err("it is not a signature of its key over the checkpoint before it");
    }
    Ok((key, point.record_count))
}

fn split(payload: &[u8; SIGNATURE_PAYLOAD_LEN]) -> Option<(&[u8; 32], &[u8; 64])> {
    let (key, signature) = payload.split_first_chunk::<32>()?;
    Some((key, signature.first_chunk::<64>()?))
}

impl Observer for Judge<'_> {
    fn checkpoint(&mut self, point: &ChainPoint) {
        self.last_checkpoint = point.record_count;
        self.observer.checkpoint(point);
    }

    fn signature(&mut self, seen: &SignatureSeen) {
        match check(seen) {
            Ok((key, covers)) => self.good(key, covers),
            Err(why) => self.findings.push(Finding {
                code: "bad_signature",
                severity: Severity::Damage,
                place: format!(
                    "{} byte {} tick {}",
                    self.path.display(),
                    seen.offset,
                    seen.tick
                ),
                what: format!("a signature record is bad: {why}"),
            }),
        }
        self.observer.signature(seen);
    }

    fn progress(&mut self, offset: u64, file_len: u64) {
        self.observer.progress(offset, file_len);
    }
}

/// Signs chain checkpoints.
#[cfg(feature = "signing")]
#[derive(Clone)]
pub struct JournalSigner(ed25519_dalek::SigningKey);

#[cfg(feature = "signing")]
impl std::fmt::Debug for JournalSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The private half stays out of logs.
        f.debug_tuple("JournalSigner")
            .field(&self.public_key().id())
            .finish()
    }
}

#[cfg(feature = "signing")]
impl JournalSigner {
    /// A signer from 32 secret bytes.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(seed))
    }

    /// A signer from the PKCS#8 PEM text of a private key.
    ///
    /// # Errors
    /// `Key` when the text is not one.
    pub fn from_pem(text: &str) -> Result<Self> {
        use ed25519_dalek::pkcs8::DecodePrivateKey as _;
        ed25519_dalek::SigningKey::from_pkcs8_pem(text.trim())
            .map(Self)
            .map_err(|e| Error::Key {
                what: format!("not an Ed25519 PKCS#8 PEM: {e}"),
            })
    }

    /// The private key as PKCS#8 PEM.
    ///
    /// # Errors
    /// `Key` when the encoder refuses.
    pub fn to_pem(&self) -> Result<String> {
        use ed25519_dalek::pkcs8::EncodePrivateKey as _;
        self.0
            .to_pkcs8_pem(ed25519_dalek::pkcs8::spki::der::pem::LineEnding::LF)
            .map(|pem| pem.to_string())
            .map_err(|e| Error::Key {
                what: e.to_string(),
            })
    }

    /// The public half.
    pub fn public_key(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// This key's signature over `message`.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        use ed25519_dalek::Signer as _;
        self.0.sign(message).to_bytes()
    }

    /// The payload of the signature record over a checkpoint's 32 bytes.
    pub(crate) fn sign_checkpoint(&self, value: &[u8; 32]) -> [u8; SIGNATURE_PAYLOAD_LEN] {
        let mut payload = [0; SIGNATURE_PAYLOAD_LEN];
        let (key, signature) = payload.split_at_mut(32);
        key.copy_from_slice(&self.public_key().to_bytes());
        signature.copy_from_slice(&self.sign(value));
        payload
    }
}
