//! `longhaul export`: the body of the request that a session would send next, or what the store has of one.

use std::path::Path;

use longhaul_server::store::{At, Words};

use crate::body::Body;
use crate::cli::ExportArgs;
use crate::failure::Failure;
use crate::output::{self, Layout};
use crate::session;
use crate::store::{self, Kept, Whereabouts};

pub(crate) fn run(args: &ExportArgs) -> Result<(), Failure> {
    let to = args.output.as_deref().filter(|path| *path != Path::new("-"));
    output::refuse_inputs(to, [args.session.as_path()])?;
    if let Some(id) = store::named(&args.session) {
        return from_store(args, to, &Whereabouts::of(&args.told.place)?.existing()?, id);
    }
    let Some(read) = session::read(&args.session, &args.told, args.told.extent())? else {
        return no_agents(args, to);
    };
    if let Some(option) = of_the_store(args) {
        let shown = &read.shown;
        return Err(Failure::Wrong(format!(
            "{shown} is an agent's session, and {option} is for those of the store; longhaul import puts it there"
        )));
    }
    read.say_notes();
    if read.ends_with_a_reply() {
        let shown = &read.shown;
        output::say(&format!("{shown}: it ends with a reply; add your next message before it is sent"));
    }
    let body = Body::of_session(read);
    output::write(to, format!("{}\n", body.text).as_bytes())
}

/// An option that only a session of the store takes.
fn of_the_store(args: &ExportArgs) -> Option<&'static str> {
    let given = [
        (args.epoch.is_some(), "--epoch"),
        (args.request.is_some(), "--request"),
        (args.original, "--original"),
        (args.training, "--training"),
    ];
    given.iter().find(|(given, _)| *given).map(|(_, option)| *option)
}

/// What is no file and no name of an agent's session may be the id of one in the store.
fn no_agents(args: &ExportArgs, to: Option<&Path>) -> Result<(), Failure> {
    let shown = args.session.display();
    if args.session.exists() {
        return Err(Failure::Wrong(format!(
            "{shown} is no session of an agent that is known; longhaul sessions lists those that are there"
        )));
    }
    let is_id = |id: &&str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let missing = || Failure::Wrong(format!("{shown} does not exist; check the path"));
    let id = args.session.to_str().filter(is_id).ok_or_else(missing)?;
    let whereabouts = Whereabouts::of(&args.told.place)?;
    let kept = if whereabouts.is_typed() { Some(whereabouts.existing()?) } else { whereabouts.look()? };
    let kept = kept.ok_or_else(missing)?;
    match from_store(args, to, &kept, id) {
        Err(Failure::No(_)) if kept.session(id).is_err() => Err(Failure::No(format!(
            "{shown} is no file here and no session of the store; longhaul sessions lists those that are there"
        ))),
        done => done,
    }
}

fn from_store(args: &ExportArgs, to: Option<&Path>, kept: &Kept, id: &str) -> Result<(), Failure> {
    let owned = kept.session(id)?;
    if args.training {
        let words = if args.natural { Words::Natural } else { Words::AsShown };
        let examples = kept.run(kept.store.examples(&owned.tenant, &owned.session, words))?;
        let lines = examples.iter().map(|example| Ok(on_one_line(&output::json(example, Layout::Line)?)));
        return output::write(to, lines.collect::<Result<String, Failure>>()?.as_bytes());
    }
    let at = match (args.epoch, args.request, args.original) {
        (Some(number), ..) => At::Epoch(number),
        (_, Some(number), _) => At::Request(number),
        (_, _, true) => At::Original,
        _ => At::Now,
    };
    output::write(to, kept.body(&owned, at)?.as_bytes())
}

/// JSON on one line, though messages in it are laid out as the client sent them: no text in it holds an end of a line.
fn on_one_line(json: &str) -> String {
    json.split(['\n', '\r']).map(str::trim_start).collect::<String>() + "\n"
}
