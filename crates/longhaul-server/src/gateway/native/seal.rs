//! What a client is handed of a compaction: the messages that it comes to, signed so that nobody else can have written them. It is not
//! secret: whoever has it has said all of it, or could read it as well.

use std::io::{Read, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use longhaul_engine::Dialect;
use longhaul_engine::identity::Identities;
use serde::{Deserialize, Serialize};

use crate::store::Tenant;

/// How every one begins, with the version of what follows.
const OPENING: &str = "lh1.";
/// What the signatures are of, so that none is that of anything else.
const PURPOSE: &[u8] = b"a compaction in a client's hands";
/// So many bytes of a signature are written.
const SIGNED: usize = 32;

/// Signs and reads what clients are handed, for one tenant.
#[derive(Clone)]
pub(in crate::gateway) struct Seal {
    identities: Identities,
    /// The largest that is unpacked.
    most: usize,
}

/// What a compaction comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sealed {
    /// The messages or items that stand in its place, as they are written.
    pub(super) messages: Vec<String>,
    /// What the messages are known by that it stands for: where a client sends them too, they are said twice.
    pub(super) covers: Vec<u64>,
}

impl Seal {
    pub(in crate::gateway) fn new(tenant: &Tenant, most: usize) -> Self {
        Self { identities: tenant.identities(), most }
    }

    /// Signs it. Nothing where it cannot be written.
    pub(super) fn close(&self, dialect: Dialect, sealed: &Sealed) -> Option<String> {
        let json = serde_json::to_vec(sealed).ok()?;
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
        packed.write_all(&json).ok()?;
        let packed = packed.finish().ok()?;
        let mut bytes = self.sign(dialect, &packed).to_vec();
        bytes.extend(packed);
        Some(format!("{OPENING}{}", STANDARD.encode(bytes)))
    }

    /// Reads it; nothing of what was not signed here, for this tenant and dialect, or was changed since.
    pub(super) fn open(&self, dialect: Dialect, text: &str) -> Option<Sealed> {
        let bytes = STANDARD.decode(text.strip_prefix(OPENING)?).ok()?;
        let (signed, packed) = bytes.split_at_checked(SIGNED)?;
        // Every byte is looked at, so that the time it takes tells nothing.
        let own = self.sign(dialect, packed);
        let differs = own.iter().zip(signed).fold(0, |differs, (own, signed)| differs | (own ^ signed));
        if differs != 0 {
            return None;
        }
        let mut json = Vec::new();
        ZlibDecoder::new(packed).take(self.most as u64 + 1).read_to_end(&mut json).ok()?;
        (json.len() <= self.most).then(|| serde_json::from_slice(&json).ok())?
    }

    fn sign(&self, dialect: Dialect, packed: &[u8]) -> [u8; SIGNED] {
        self.identities.of(&[PURPOSE, dialect.name().as_bytes(), packed]).0
    }

    /// What a message or item is known by, however a client writes it.
    pub(super) fn known_by(&self, item: &serde_json::Value) -> u64 {
        let mut says = Vec::new();
        super::unfold::essence(item, &mut says);
        let says: Vec<&[u8]> = says.iter().map(String::as_bytes).collect();
        let bytes = self.identities.of(&says).0;
        bytes.iter().take(8).fold(0, |known, byte| (known << 8) | u64::from(*byte))
    }
}
