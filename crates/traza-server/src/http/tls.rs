//! Certificates.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use durable::{RealFs, read_all};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::grpc::Pem;

/// The longest file of certificates that is read, in bytes.
const PEM_LEN_MAX: u64 = 1 << 20;

/// Why there is no encryption.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file has no certificate or no key, in PEM.
    #[error("{}: {what}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Certificate and key do not fit each other, or are not usable.
    #[error("the certificate cannot be used")]
    Config(#[from] rustls::Error),
}

/// What listeners encrypt with.
#[derive(Clone)]
pub struct Tls {
    /// For HTTP/1.
    pub(crate) config: Arc<ServerConfig>,
    /// For gRPC.
    pub(crate) pem: Pem,
}

impl std::fmt::Debug for Tls {
    /// Never shows the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// What a listener needs to encrypt: the chain of certificates and the private key, both in PEM.
///
/// # Errors
/// See [`TlsError`].
pub fn read_tls(certificate: &Path, key: &Path) -> Result<Tls, TlsError> {
    let pem = read(certificate)?;
    let fault = |path: &Path, what: String| TlsError::Pem {
        path: path.to_owned(),
        what,
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| fault(certificate, error.to_string()))?;
    if chain.is_empty() {
        return Err(fault(certificate, "no certificate in it".to_owned()));
    }
    let key_pem = read(key)?;
    let key =
        PrivateKeyDer::from_pem_slice(&key_pem).map_err(|error| fault(key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Tls {
        config: Arc::new(config),
        pem: Pem {
            certificate: pem,
            key: key_pem,
        },
    })
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    read_all(&RealFs, path, PEM_LEN_MAX).map_err(|source| TlsError::Io {
        path: path.to_owned(),
        source,
    })
}
