//! The forms that secrets stand in, and the words that lead to them.

/// What the words of [`FORMS`] lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `machine … login … password …`
    Netrc,
    /// `"keyName": "key1", …, "value": "…"`
    KeyList,
    /// Words to restore a wallet with.
    Phrase,
    /// A command that prints a secret: its output stands below.
    Output,
    /// The same if the command read a secret.
    Decoded,
}

/// The words that stand before forms.
pub(super) const FORMS: [(&str, Form); 30] = [
    ("machine ", Form::Netrc),
    ("keyname", Form::KeyList),
    ("mnemonic", Form::Phrase),
    ("seed phrase", Form::Phrase),
    ("seed words", Form::Phrase),
    ("seed_phrase", Form::Phrase),
    ("recovery phrase", Form::Phrase),
    ("recovery_phrase", Form::Phrase),
    ("recovery words", Form::Phrase),
    ("secret phrase", Form::Phrase),
    ("backup phrase", Form::Phrase),
    ("wallet seed", Form::Phrase),
    ("recovery seed", Form::Phrase),
    ("base64 -d", Form::Decoded),
    ("base64 --decode", Form::Decoded),
    ("base64decode", Form::Decoded),
    ("base64 -di", Form::Decoded),
    ("get-secret-value", Form::Output),
    ("secrets versions access", Form::Output),
    ("keyvault secret show", Form::Output),
    ("vault kv get -field", Form::Output),
    ("vault read -field", Form::Output),
    ("op read ", Form::Output),
    ("print-access-token", Form::Output),
    ("print-identity-token", Form::Output),
    ("get-login-password", Form::Output),
    ("gh auth token", Form::Output),
    ("find-generic-password", Form::Output),
    ("kubectl create token", Form::Output),
    ("heroku config:get", Form::Output),
];
