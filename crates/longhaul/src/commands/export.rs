//! `longhaul export`: the body of the request that a session would send next.

use std::path::Path;

use crate::body::Body;
use crate::cli::ExportArgs;
use crate::failure::Failure;
use crate::{output, session};

pub(crate) fn run(args: &ExportArgs) -> Result<(), Failure> {
    let to = args.output.as_deref().filter(|path| *path != Path::new("-"));
    output::refuse_inputs(to, [args.session.as_path()])?;
    let Some(read) = session::read(&args.session, &args.told, args.told.extent())? else {
        let shown = args.session.display();
        return Err(Failure::Wrong(if args.session.exists() {
            format!(
                "{shown} is no session of an agent that is known; longhaul sessions lists those that are there"
            )
        } else {
            format!("{shown} does not exist; check the path")
        }));
    };
    read.say_notes();
    if read.ends_with_a_reply() {
        let shown = &read.shown;
        output::say(&format!("{shown}: it ends with a reply; add your next message before it is sent"));
    }
    let body = Body::of_session(read);
    output::write(to, format!("{}\n", body.text).as_bytes())
}
