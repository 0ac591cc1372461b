//! The layouts of text in which secrets are known to appear, and the keywords that introduce them.
//! `layout_search` reads them.

/// A layout of text that contains a secret. A keyword of [`LAYOUT_KEYWORDS`] introduces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretLayout {
    /// `machine … login … password …`
    Netrc,
    /// `"keyName": "key1", …, "value": "…"`
    KeyList,
    /// The twelve to twenty-four words that restore a wallet.
    RecoveryPhrase,
    /// A command that prints a secret. The output is on the lines below.
    CommandOutput,
    /// A command that decodes base64. Its output counts only if the command line also names a secret.
    DecodedOutput,
}

/// The keywords that introduce each layout, in lower case. They are matched in any case.
pub(super) const LAYOUT_KEYWORDS: [(&str, SecretLayout); 30] = [
    ("machine ", SecretLayout::Netrc),
    ("keyname", SecretLayout::KeyList),
    ("mnemonic", SecretLayout::RecoveryPhrase),
    ("seed phrase", SecretLayout::RecoveryPhrase),
    ("seed words", SecretLayout::RecoveryPhrase),
    ("seed_phrase", SecretLayout::RecoveryPhrase),
    ("recovery phrase", SecretLayout::RecoveryPhrase),
    ("recovery_phrase", SecretLayout::RecoveryPhrase),
    ("recovery words", SecretLayout::RecoveryPhrase),
    ("secret phrase", SecretLayout::RecoveryPhrase),
    ("backup phrase", SecretLayout::RecoveryPhrase),
    ("wallet seed", SecretLayout::RecoveryPhrase),
    ("recovery seed", SecretLayout::RecoveryPhrase),
    ("base64 -d", SecretLayout::DecodedOutput),
    ("base64 --decode", SecretLayout::DecodedOutput),
    ("base64decode", SecretLayout::DecodedOutput),
    ("base64 -di", SecretLayout::DecodedOutput),
    ("get-secret-value", SecretLayout::CommandOutput),
    ("secrets versions access", SecretLayout::CommandOutput),
    ("keyvault secret show", SecretLayout::CommandOutput),
    ("vault kv get -field", SecretLayout::CommandOutput),
    ("vault read -field", SecretLayout::CommandOutput),
    ("op read ", SecretLayout::CommandOutput),
    ("print-access-token", SecretLayout::CommandOutput),
    ("print-identity-token", SecretLayout::CommandOutput),
    ("get-login-password", SecretLayout::CommandOutput),
    ("gh auth token", SecretLayout::CommandOutput),
    ("find-generic-password", SecretLayout::CommandOutput),
    ("kubectl create token", SecretLayout::CommandOutput),
    ("heroku config:get", SecretLayout::CommandOutput),
];
