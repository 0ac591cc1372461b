//! Writes `docs/configuration-reference.md` from the doc comments of the configuration types, their types and
//! their defaults. The test fails if the page is not current; `LONGHAUL_BLESS=1` rewrites it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::Parser;
use longhaul_engine::policy::{CacheStrategy, CacheTtl};

use super::keys::{KeyTree, has_effect};
use super::{Flag, KeyPath, VARIABLE_PREFIX, Value};
use crate::cli::reference::{check_page, table_cell};
use crate::cli::{Cli, Command, caching_config_flags};

/// The files that define the configuration types.
const SOURCES: [&str; 3] =
    [include_str!("../../../longhaul-engine/src/config.rs"), include_str!("app.rs"), include_str!("gateway.rs")];

/// The options that set a key without being read as a layer of the configuration.
const OTHER_OPTIONS: [(&str, &str); 4] = [
    ("store.path", "`--store`"),
    ("store.url", "`--store`"),
    ("store.keep_days", "`--older-than` (vacuum)"),
    ("store.max_bytes", "`--max-size` (vacuum)"),
];

/// A struct or an enum of the sources: its fields or the values that a file may contain.
#[derive(Default)]
struct Definition {
    fields: Vec<Field>,
    values: Vec<String>,
}

struct Field {
    name: String,
    type_name: String,
    docs: String,
}

/// Reads the definitions, one line at a time: the sources are formatted by rustfmt.
fn definitions() -> BTreeMap<String, Definition> {
    let mut found: BTreeMap<String, Definition> = BTreeMap::new();
    let (mut docs, mut renamed, mut current) = (Vec::new(), None, None::<(String, bool)>);
    for line in SOURCES.iter().flat_map(|source| source.split("#[cfg(test)]").next().unwrap().lines()) {
        let words = line.trim();
        if let Some(text) = words.strip_prefix("///") {
            docs.push(text.trim());
            continue;
        }
        if let Some(rest) = words.strip_prefix("#[serde(rename = \"") {
            renamed = Some(rest.trim_end_matches("\")]").to_owned());
            continue;
        }
        if words.starts_with("#[") {
            continue;
        }
        let bare = words.trim_start_matches("pub(crate) ").trim_start_matches("pub ");
        let opens = |keyword: &str| bare.strip_prefix(keyword).and_then(|rest| rest.strip_suffix(" {"));
        match (&current, line) {
            (_, "}") => current = None,
            (None, _) => {
                let opened = opens("struct ").map(|name| (name, false)).or(opens("enum ").map(|name| (name, true)));
                if let Some((name, is_enum)) = opened {
                    found.insert(name.to_owned(), Definition::default());
                    current = Some((name.to_owned(), is_enum));
                }
            }
            (Some((name, true)), _) => {
                let variant = bare.trim_end_matches(',');
                let value = renamed.take().unwrap_or_else(|| variant.to_lowercase());
                found.get_mut(name).unwrap().values.push(value);
            }
            (Some((name, false)), _) => {
                if let Some((field, type_name)) = bare.trim_end_matches(',').split_once(": ") {
                    let (field, type_name) = (field.to_owned(), type_name.to_owned());
                    let field = Field { name: field, type_name, docs: docs.join(" ") };
                    found.get_mut(name).unwrap().fields.push(field);
                }
            }
        }
        docs.clear();
    }
    found
}

/// A key with the field that defines it.
struct Key<'d> {
    path: KeyPath,
    field: &'d Field,
}

/// Collects the keys below a struct, in the order of the sources.
fn collect<'d>(all: &'d BTreeMap<String, Definition>, name: &str, path: &KeyPath, keys: &mut Vec<Key<'d>>) {
    for field in &all[name].fields {
        let mut path = path.clone();
        path.push(field.name.clone());
        let inner = match field.type_name.strip_prefix("BTreeMap<String, ") {
            Some(inner) => {
                path.push("*".to_owned());
                inner.trim_end_matches('>')
            }
            None => field.type_name.as_str(),
        };
        match all.get(inner) {
            Some(section) if !section.fields.is_empty() && inner != "ListenAddress" => {
                collect(all, inner, &path, keys);
            }
            _ => keys.push(Key { path, field }),
        }
    }
}

/// Describes a type for the writer of a configuration file.
fn type_text(all: &BTreeMap<String, Definition>, type_name: &str) -> String {
    if let Some(inner) = type_name.strip_prefix("Option<") {
        return format!("{} or `null`", type_text(all, &inner[..inner.len() - 1]));
    }
    if let Some(inner) = type_name.strip_prefix("Vec<") {
        return format!("list of {}", type_text(all, &inner[..inner.len() - 1]));
    }
    match type_name {
        "bool" => "`true` or `false`".to_owned(),
        "f64" => "number".to_owned(),
        "usize" | "u32" | "u64" | "Tokens" => "whole number".to_owned(),
        "String" | "EngineName" => "text".to_owned(),
        "ListenAddress" => "address and port".to_owned(),
        "RedactionRule" => "`{ name, pattern }`".to_owned(),
        "Map<String, Value>" => "facts by name".to_owned(),
        "NativeFeature" => "`context_management`, `responses_compact`".to_owned(),
        name => {
            let values: Vec<String> = all[name].values.iter().map(|value| format!("`{value}`")).collect();
            assert!(!values.is_empty(), "no words for the type {name}");
            values.join(", ")
        }
    }
}

/// Returns the options that set keys, each with the key.
fn options() -> Vec<Flag> {
    let parsed = |line: &[&str]| Cli::try_parse_from(line).unwrap().command;
    let policy = [
        "longhaul",
        "explain",
        "--model",
        "*",
        "--context-length",
        "8k",
        "--threshold",
        "0.5",
        "--target-ratio",
        "0.2",
        "--protect-first",
        "1",
        "--protect-last",
        "1",
        "--engine",
        "x",
        "--plugins",
        "x",
    ];
    let serve = ["longhaul", "serve", "--listen", "127.0.0.1:1", "--upstream", "http://x"];
    let (Command::Explain(explain), Command::Serve(serve)) = (parsed(&policy), parsed(&serve)) else { unreachable!() };
    let mut flags = explain.policy.config_flags("*");
    flags.extend(serve.config_flags());
    flags.extend(caching_config_flags(Some(CacheTtl::Auto), Some(CacheStrategy::Prefix)));
    flags
}

#[test]
fn the_page_about_the_configuration_is_current() {
    let (all, tree, options) = (definitions(), KeyTree::new(), options());
    let mut keys = Vec::new();
    collect(&all, "Config", &Vec::new(), &mut keys);
    collect(&all, "AppConfig", &Vec::new(), &mut keys);
    keys.sort_by_key(|key| section_order(&key.path));
    for (path, _) in tree.defaults() {
        assert!(keys.iter().any(|key| key.path == path), "{path:?} is not in the page");
    }
    let mut page = "# Configuration reference\n\n\
        Generated from the doc comments, types and defaults of the code. [configuration.md](configuration.md) says which files are read, and \
        `longhaul init` writes a file with every key.\n\n\
        A variable sets one key, for example `LONGHAUL_COMPRESSION__THRESHOLD=0.6`; an option overrides it. In `models.NAME`, NAME is the \
        name of a model or a pattern for it; set these keys in a file.\n"
        .to_owned();
    let mut section = String::new();
    for Key { path, field } in &keys {
        if path[0] != section {
            section.clone_from(&path[0]);
            let _ = write!(
                page,
                "\n## {section}\n\n| key | type | default | variable | option | meaning |\n| --- | --- | --- | --- | --- | --- |\n"
            );
        }
        let key = path.join(".");
        let option = options.iter().find(|flag| flag.path == *path).map(|flag| format!("`{}`", flag.name));
        let option =
            option.or(OTHER_OPTIONS.iter().find(|(other, _)| *other == key).map(|(_, text)| (*text).to_owned()));
        let variable = if path.contains(&"*".to_owned()) {
            String::new()
        } else {
            format!("`{VARIABLE_PREFIX}{}`", path.join("__").to_uppercase())
        };
        let default = match tree.default_at(path) {
            Some(Value::Object(_)) | None => "`{}`".to_owned(),
            Some(default) => format!("`{default}`"),
        };
        assert!(!field.docs.is_empty(), "{key} has no doc comment");
        let effect = if has_effect(path) { "" } else { " (no effect yet)" };
        let meaning = field.docs.replace("[`AUTO_PROVIDER`]", "`auto`");
        let _ = writeln!(
            page,
            "| `{}` | {} | {default} | {variable} | {} | {}{effect} |",
            key.replace('*', "NAME"),
            table_cell(&type_text(&all, &field.type_name)),
            option.unwrap_or_default(),
            table_cell(&meaning),
        );
    }
    check_page("configuration-reference.md", &page);
}

/// Returns the place of a section in the page, so that the engine's and the program's keys of one section are
/// together.
fn section_order(path: &KeyPath) -> usize {
    let order = [
        "compression",
        "context",
        "prompt_caching",
        "redaction",
        "sacred_zone",
        "models",
        "auxiliary",
        "upstreams",
        "store",
        "gateway",
    ];
    order.iter().position(|section| *section == path[0]).unwrap()
}
