//! `longhaul config`: prints the active configuration, the origin of each value, and the keys that have no
//! effect yet.

use serde::Serialize;
use serde_json::Value;

use crate::cli::ConfigArgs;
use crate::config::{CONFIG_FILE_NAME, ConfigValue, Environment, FileOrigin, LoadedFile, Origin, Settings, has_effect};
use crate::engines::{AvailableEngines, PluginCaller};
use crate::failure::Failure;
use crate::output::{self, EMPHASIS_STYLE, Page, SECONDARY_STYLE, StyledLine};

#[derive(Serialize)]
struct ConfigOutput<'s> {
    /// The nearest file that was read, which wins over the others.
    file: Option<&'s str>,
    /// The reason why it was read.
    #[serde(rename = "found")]
    origin: Option<FileOrigin>,
    /// All files that were read, the lowest layer first.
    files: &'s [LoadedFile],
    values: Vec<ConfigRow<'s>>,
    notes: Vec<String>,
    warnings: &'s [longhaul_engine::policy::ConfigWarning],
}

#[derive(Serialize)]
struct ConfigRow<'s> {
    key: String,
    value: &'s Value,
    origin: &'s Origin,
    has_effect: bool,
}

impl<'s> ConfigRow<'s> {
    fn new(leaf: &'s ConfigValue) -> Self {
        let has_effect = has_effect(&leaf.path);
        ConfigRow { key: leaf.path.join("."), value: &leaf.value, origin: &leaf.origin, has_effect }
    }
}

pub(crate) fn run(args: &ConfigArgs, environment: &Environment) -> Result<(), Failure> {
    output::refuse_overwriting_inputs(args.output.file(), args.config.config.as_deref())?;
    let settings = Settings::load(args.config.config.as_deref(), environment, Vec::new())?;
    let available = AvailableEngines::new(&settings, environment, PluginCaller::User)?;
    let to = args.output.file();
    let values: Vec<ConfigRow<'_>> = settings.values.iter().map(ConfigRow::new).collect();
    if args.output.json {
        let file = settings.files.last();
        let output = ConfigOutput {
            file: file.map(|file| file.name.as_str()),
            origin: file.map(|file| file.origin),
            files: &settings.files,
            values,
            notes: [settings.notes.clone(), available.notes.clone()].concat(),
            warnings: &settings.warnings,
        };
        return output::write_json(to, &output);
    }
    settings.print_notes(&settings.warnings);
    available.notes.iter().for_each(|line| output::print_message(line));
    let line = |ConfigRow { key, value, origin, has_effect }: ConfigRow<'_>| {
        let effect = if has_effect { "" } else { "no effect yet" };
        let style = if *origin == Origin::Default { SECONDARY_STYLE } else { EMPHASIS_STYLE };
        let origin = StyledLine::default().styled(style, origin.to_string());
        [key.into(), value.to_string().into(), origin, StyledLine::default().styled(SECONDARY_STYLE, effect)]
    };
    let mut page = Page::default();
    for LoadedFile { name, origin, trusted } in settings.files.iter().rev() {
        let rights = if *trusted { "" } else { ", not trusted: only its numbers apply" };
        page.add_line(format!("configuration: {name}, {}{rights}", origin.description()));
    }
    if settings.files.is_empty() {
        page.add_line(format!(
            "configuration: none, so the defaults apply; longhaul init writes a {CONFIG_FILE_NAME} with all keys"
        ));
    }
    page.add_blank();
    page.add_table(values.into_iter().map(line));
    output::write_page(to, &page)
}
