//! What 200 open event streams hold in memory, each of a session of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::Outcome;
use crate::bench::Bench;
use crate::bodies::{Size, streamed};
use crate::client::Connection;
use crate::process::memory;
use crate::record::{Goal, heading, rounded};
use crate::servers::Server;

const STREAMS: u64 = 200;
/// As many are led up to their stream at a time.
const AT_A_TIME: u64 = 8;

pub(crate) async fn measure(bench: &Bench) -> Outcome<()> {
    for size in [Size::Small, Size::Long] {
        let Some(gateway) = bench.fresh_gateway().await? else { continue };
        let Some(id) = gateway.id else {
            heading("open streams: left out, the gateway's process is not known");
            continue;
        };
        heading(&format!("memory at {STREAMS} open streams, {} bodies", size.name()));
        let idle = memory(id).now;
        let chunks = Arc::new(AtomicUsize::new(0));
        let readers = open(&gateway, size, &chunks).await?;
        let arrived = chunks.load(Ordering::Relaxed);
        sleep(Duration::from_secs(5)).await;
        let (held, ticks) = (memory(id), chunks.load(Ordering::Relaxed) - arrived);
        drop(readers);
        sleep(Duration::from_secs(3)).await;
        let left = memory(id).now;
        let fields = json!({"what": "streams", "bodies": size.name(), "streams": STREAMS, "idle_mb": rounded(idle),
            "open_mb": rounded(held.now), "peak_mb": rounded(held.peak), "closed_mb": rounded(left), "chunks": ticks});
        let words = format!(
            "idle {idle:.0} MB, open {:.0} MB (peak {:.0}), closed again {left:.0} MB; {ticks} chunks in 5 s",
            held.now, held.peak
        );
        bench.record.row(&fields, &words)?;
        let what = format!("MB at {STREAMS} open streams, {} bodies", size.name());
        bench.record.judged(&what, held.now, Goal::Under(150.0))?;
    }
    Ok(())
}

/// Opens all streams, a few at a time; what is returned reads them until it is dropped.
async fn open(gateway: &Server, size: Size, chunks: &Arc<AtomicUsize>) -> Outcome<JoinSet<()>> {
    let mut readers = JoinSet::new();
    for first in (0..STREAMS).step_by(AT_A_TIME as usize) {
        let mut opening = JoinSet::new();
        for seed in first..(first + AT_A_TIME).min(STREAMS) {
            let address = gateway.address;
            opening.spawn(async move {
                let (before, last) = streamed(size, 500_000_000 + seed);
                let mut connection = Connection::open(address).await?;
                for body in &before {
                    connection.exchange(body).await?;
                }
                connection.subscribe(&last).await?;
                Outcome::Ok(connection)
            });
        }
        while let Some(opened) = opening.join_next().await {
            let mut connection = opened??;
            let chunks = Arc::clone(chunks);
            readers.spawn(async move {
                while connection.next().await.is_ok() {
                    chunks.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    }
    Ok(readers)
}
