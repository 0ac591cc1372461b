//! The form in which a client keeps a compaction: its messages, compressed and signed, so that nobody else
//! can have written them. They are not encrypted, because the client sent or could read all of their content.

use std::io::{Read, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use longhaul_engine::ApiFormat;
use longhaul_engine::keyed_hash::KeyedHasher;
use serde::{Deserialize, Serialize};

use crate::store::Tenant;

/// The prefix of every signed compaction, which gives the version of the format.
const VERSION_PREFIX: &str = "lh1.";
/// The purpose that is part of every signature, so that no other signature of the same key is valid here. A
/// change invalidates all compactions that clients have.
const SIGNATURE_PURPOSE: &[u8] = b"a compaction in a client's hands";
/// The length of a signature in bytes.
const SIGNATURE_BYTES: usize = 32;

/// Signs and verifies the compactions of one tenant.
#[derive(Clone)]
pub(in crate::gateway) struct CompactionSigner {
    hasher: KeyedHasher,
    /// The most bytes of a compaction that are decompressed; it is the limit for request bodies.
    max_bytes: usize,
}

/// The content of a signed compaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SignedCompaction {
    /// The JSON of the messages or items that replace the compaction.
    pub(super) messages: Vec<String>,
    /// The hashes of the items that the compaction covers. If the client sends one of them too, it is
    /// removed, so that it is not there twice.
    pub(super) covers: Vec<u64>,
}

impl CompactionSigner {
    pub(in crate::gateway) fn new(tenant: &Tenant, max_bytes: usize) -> Self {
        Self { hasher: tenant.hasher(), max_bytes }
    }

    /// Signs a compaction; nothing if it cannot be serialized.
    pub(super) fn sign(&self, api_format: ApiFormat, compaction: &SignedCompaction) -> Option<String> {
        let json = serde_json::to_vec(compaction).ok()?;
        let mut compressed = ZlibEncoder::new(Vec::new(), Compression::default());
        compressed.write_all(&json).ok()?;
        let compressed = compressed.finish().ok()?;
        let mut bytes = self.signature(api_format, &compressed).to_vec();
        bytes.extend(compressed);
        Some(format!("{VERSION_PREFIX}{}", STANDARD.encode(bytes)))
    }

    /// Verifies a signed compaction and returns its content. Returns nothing if it was signed for another
    /// tenant or API format, was changed, or is too large.
    pub(super) fn verify(&self, api_format: ApiFormat, text: &str) -> Option<SignedCompaction> {
        let bytes = STANDARD.decode(text.strip_prefix(VERSION_PREFIX)?).ok()?;
        let (signature, compressed) = bytes.split_at_checked(SIGNATURE_BYTES)?;
        // Compares all bytes, so that the time does not depend on where they differ.
        let expected = self.signature(api_format, compressed);
        let differs =
            expected.iter().zip(signature).fold(0, |differs, (expected, signature)| differs | (expected ^ signature));
        if differs != 0 {
            return None;
        }
        let mut json = Vec::new();
        ZlibDecoder::new(compressed).take(self.max_bytes as u64 + 1).read_to_end(&mut json).ok()?;
        (json.len() <= self.max_bytes).then(|| serde_json::from_slice(&json).ok())?
    }

    fn signature(&self, api_format: ApiFormat, compressed: &[u8]) -> [u8; SIGNATURE_BYTES] {
        self.hasher.hash(&[SIGNATURE_PURPOSE, api_format.name().as_bytes(), compressed]).0
    }

    /// Hashes the content of a message or item, independent of how a client writes it.
    pub(super) fn content_hash(&self, item: &serde_json::Value) -> u64 {
        let mut texts = Vec::new();
        super::expand::collect_content(item, &mut texts);
        let texts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        let bytes = self.hasher.hash(&texts).0;
        bytes.iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte))
    }
}
