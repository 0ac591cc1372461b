tests! { always: [], real: [reads] }
fn reads() {
    use crate::databases::*;
    for entry in std::fs::read_dir(crate::support::real()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if !name.starts_with(module_path!().rsplit("::").next().unwrap()) { continue; }
        for asked in [longhaul_server::agents::Asked::default(), whole()] {
            let s = session(&path, &asked);
            body(&s);
            println!("{name}: {} turns {} model {:?} {:?} dialect {:?} compactions {} requests {} project {:?} title {:?} unknown {:?} damage {:?} started {:?} updated {:?} tools {} system {}", s.id, s.turns.len(), s.model, s.agent, s.dialect, s.compactions, s.requests.len(), s.project, s.title, s.unknown, s.damage, s.started, s.updated, s.tools.is_some(), s.system.is_some());
            println!("   {:?}", s.requests.last());
            if s.requests.iter().filter(|r| r.reply.is_some()).count() > 1 { println!("   growth {:?}", growth(&s)); }
        }
    }
}
