//! `longhaul export`: writes the next request of an agent's session, or a request or training examples from
//! the store.

use std::path::Path;

use longhaul_server::store::{ExampleContent, HistoryPoint};

use crate::agent_session;
use crate::cli::ExportArgs;
use crate::failure::Failure;
use crate::output::{self, JsonLayout};
use crate::request_body::RequestBody;
use crate::store::{self, ConfiguredStore, OpenStore};

pub(crate) fn run(args: &ExportArgs) -> Result<(), Failure> {
    let to = args.output.as_deref().filter(|path| *path != Path::new("-"));
    output::refuse_overwriting_inputs(to, [args.session.as_path()])?;
    if let Some(id) = store::session_name_in(&args.session) {
        return export_from_store(
            args,
            to,
            &ConfiguredStore::from_flags(&args.input.store_flags)?.open_existing()?,
            id,
        );
    }
    let Some(loaded) = agent_session::load(&args.session, &args.input, args.input.extent())? else {
        return export_by_store_id(args, to);
    };
    if let Some(option) = store_only_option(args) {
        let shown = &loaded.label;
        return Err(Failure::InvalidInput(format!(
            "{shown} is an agent's session, and {option} is only for sessions of the store; import it first with longhaul import"
        )));
    }
    loaded.print_notes();
    if loaded.ends_with_reply() {
        let shown = &loaded.label;
        output::print_message(&format!("{shown}: it ends with a reply; append your next message before you send it"));
    }
    let body = RequestBody::from_agent_session(loaded);
    output::write(to, format!("{}\n", body.text).as_bytes())
}

/// Returns the first given option that applies only to stored sessions.
fn store_only_option(args: &ExportArgs) -> Option<&'static str> {
    let given = [
        (args.epoch.is_some(), "--epoch"),
        (args.request.is_some(), "--request"),
        (args.original, "--original"),
        (args.training, "--training"),
    ];
    given.iter().find(|(given, _)| *given).map(|(_, option)| *option)
}

/// Exports a stored session by its ID, if the argument is neither a file nor the name of an agent's session.
fn export_by_store_id(args: &ExportArgs, to: Option<&Path>) -> Result<(), Failure> {
    let shown = args.session.display();
    if args.session.exists() {
        return Err(Failure::InvalidInput(format!(
            "{shown} is not a session of a known agent; longhaul sessions lists the existing ones"
        )));
    }
    let is_id = |id: &&str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let missing = || Failure::InvalidInput(format!("{shown} does not exist; check the path"));
    let id = args.session.to_str().filter(is_id).ok_or_else(missing)?;
    let whereabouts = ConfiguredStore::from_flags(&args.input.store_flags)?;
    let opened =
        if whereabouts.is_from_flag() { Some(whereabouts.open_existing()?) } else { whereabouts.open_if_exists()? };
    let store = opened.ok_or_else(missing)?;
    match export_from_store(args, to, &store, id) {
        Err(Failure::Negative(_)) if store.find_session(id).is_err() => Err(Failure::Negative(format!(
            "{shown} is neither a file nor a session of the store; longhaul sessions lists the existing ones"
        ))),
        done => done,
    }
}

fn export_from_store(args: &ExportArgs, to: Option<&Path>, store: &OpenStore, id: &str) -> Result<(), Failure> {
    let owned = store.find_session(id)?;
    if args.training {
        let content = if args.natural { ExampleContent::Original } else { ExampleContent::AsShown };
        let examples = store.run(store.store.examples(&owned.tenant, &owned.session, content))?;
        let lines = examples.iter().map(|example| Ok(to_one_line(&output::to_json(example, JsonLayout::Compact)?)));
        return output::write(to, lines.collect::<Result<String, Failure>>()?.as_bytes());
    }
    let at = match (args.epoch, args.request, args.original) {
        (Some(number), ..) => HistoryPoint::Compaction(number),
        (_, Some(number), _) => HistoryPoint::Request(number),
        (_, _, true) => HistoryPoint::Original,
        _ => HistoryPoint::Now,
    };
    output::write(to, store.session_body(&owned, at)?.as_bytes())
}

/// Joins the lines of a JSON text. Messages keep the client's layout, and JSON strings contain no raw line
/// breaks, so this is safe.
fn to_one_line(json: &str) -> String {
    json.split(['\n', '\r']).map(str::trim_start).collect::<String>() + "\n"
}
