//! `longhaul engines`: lists the available engines and their origins.

use longhaul_engine::plan::{Engine, EngineSource};
use longhaul_engine::policy::EngineName;
use longhaul_server::plugins::FoundPlugin;
use serde::Serialize;

use crate::cli::EnginesArgs;
use crate::config::{Environment, Settings};
use crate::engines::{AvailableEngines, PluginCaller};
use crate::failure::Failure;
use crate::output::{self, EMPHASIS_STYLE, ERROR_STYLE, Page, SECONDARY_STYLE, SUCCESS_STYLE, StyledLine};

#[derive(Serialize)]
struct EnginesRow {
    name: String,
    /// The description of the engine. It is empty for a plug-in without a valid manifest.
    does: Option<String>,
    from: &'static str,
    /// The folder of a plug-in.
    path: Option<String>,
    /// The reason why the engine cannot be used.
    problem: Option<String>,
    /// Whether this is the engine that compacts if the user names no other.
    #[serde(rename = "in_force")]
    is_active: bool,
}

impl EnginesRow {
    fn for_engine(engine: &dyn Engine, active: &EngineName) -> Self {
        let from = match engine.source() {
            EngineSource::BuiltIn => "built-in",
            EngineSource::Host => "host",
            EngineSource::Plugin(_) => "plug-in",
        };
        let (name, does) = (engine.name(), Some(engine.description().to_owned()));
        Self { is_active: name == *active, name: name.to_string(), does, from, path: None, problem: None }
    }

    fn for_plugin(plugin: &FoundPlugin, active_folder: Option<&str>) -> Self {
        let path = plugin.folder.display().to_string();
        Self {
            name: plugin.name.clone(),
            does: plugin.manifest.as_ref().ok().map(|manifest| manifest.about.clone()),
            from: "plug-in",
            problem: plugin.manifest.as_ref().err().cloned(),
            is_active: active_folder == Some(path.as_str()),
            path: Some(path),
        }
    }
}

pub(crate) fn run(args: &EnginesArgs, environment: &Environment) -> Result<(), Failure> {
    let flags = args.plugins.config_flag().into_iter().collect();
    let settings = Settings::load(args.config.config.as_deref(), environment, flags)?;
    let available = AvailableEngines::new(&settings, environment, PluginCaller::User)?;
    let active_engine = available.engines.find_or_compressor(&settings.engine.context.engine);
    let active_folder = match active_engine.source() {
        EngineSource::Plugin(folder) => Some(folder),
        EngineSource::Host | EngineSource::BuiltIn => None,
    };
    let name = if active_folder.is_some() { EngineName::from(String::new()) } else { active_engine.name() };
    let is_plugin = |engine: &&dyn Engine| matches!(engine.source(), EngineSource::Plugin(_));
    let built_in = available.engines.all().filter(|engine| !is_plugin(engine));
    let mut rows: Vec<EnginesRow> = built_in.map(|engine| EnginesRow::for_engine(engine, &name)).collect();
    rows.extend(available.found_plugins.iter().map(|plugin| EnginesRow::for_plugin(plugin, active_folder.as_deref())));
    let to = args.output.file();
    if args.output.json {
        return output::write_json(to, &rows);
    }
    settings.print_notes(&[]);
    available.notes.iter().for_each(|line| output::print_message(line));
    let mut page = Page::default();
    page.add_table(rows.iter().map(|row| {
        let active_text = if row.is_active { "active" } else { "" };
        let description = match (&row.does, &row.problem) {
            (_, Some(problem)) => StyledLine::default().styled(ERROR_STYLE, problem),
            (does, None) => StyledLine::from(does.as_deref().unwrap_or_default()),
        };
        let from = row.path.as_ref().map_or_else(|| row.from.to_owned(), |path| format!("{}, {path}", row.from));
        let from = StyledLine::default().styled(SECONDARY_STYLE, from);
        [
            StyledLine::default().styled(EMPHASIS_STYLE, &row.name),
            description,
            from,
            StyledLine::default().styled(SUCCESS_STYLE, active_text),
        ]
    }));
    output::write_page(to, &page)
}
