//! Reading what each call of a body did, and running the passes over it: where nothing may change, and where all may.
//!
//!     LONGHAUL_SHARED=… cargo bench -p longhaul-engine --bench passes

use divan::Bencher;
use divan::counter::BytesCount;
use longhaul_engine::action::Actions;
use longhaul_engine::passes::{PASSES, PassScope, run_all};
use longhaul_engine::policy::{Config, Policy};
use longhaul_engine::transcript::Transcript;
use longhaul_engine::{models, wire};

mod bodies;

fn main() {
    divan::main();
}

fn bench(bencher: Bencher<'_, '_>, work: impl Fn(&PassScope<'_, '_>), may_change: &dyn Fn(usize) -> bool) {
    let body = bodies::chat(5);
    let Ok((transcript, _)) = wire::parse(None, &body) else { return };
    let Ok((policy, _)) = Policy::new(&Config::default(), &models::find("gpt-5")) else { return };
    let actions = Actions::from_transcript(&transcript);
    let scope =
        PassScope { policy: &policy, transcript: &transcript, actions: &actions, may_change, recall_id: &|_| None };
    bencher.counter(BytesCount::of_str(&body)).bench_local(|| work(&scope));
}

#[divan::bench(sample_count = 10)]
fn a_actions(bencher: Bencher<'_, '_>) {
    bench(
        bencher,
        |scope| drop(Actions::from_transcript(divan::black_box::<&Transcript<'_>>(scope.transcript))),
        &|_| false,
    );
}

#[divan::bench(sample_count = 10)]
fn b_passes_where_nothing_may_change(bencher: Bencher<'_, '_>) {
    bench(bencher, |scope| drop(run_all(scope)), &|_| false);
}

#[divan::bench(sample_count = 10)]
fn c_passes_where_all_may(bencher: Bencher<'_, '_>) {
    bench(bencher, |scope| drop(run_all(scope)), &|_| true);
}

#[divan::bench(sample_count = 10, args = PASSES.iter().map(|pass| pass.name))]
fn d_one_pass(bencher: Bencher<'_, '_>, name: &str) {
    let Some(pass) = PASSES.iter().find(|pass| pass.name == name) else { return };
    bench(bencher, |scope| drop((pass.run)(scope)), &|_| true);
}
