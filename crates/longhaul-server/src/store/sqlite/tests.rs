use super::*;
use crate::store::work;

/// A transaction that writes a setting and panics before it is committed.
fn panics() -> Work<()> {
    work((), |sql, ()| {
        Box::pin(async move {
            sql.run("CREATE TABLE half_done (n INTEGER)", &[]).await?;
            assert!(std::hint::black_box(false), "on purpose");
            Ok(())
        })
    })
}

fn tables() -> Work<i64> {
    work((), |sql, ()| {
        Box::pin(async move {
            let count = "SELECT count(*) FROM sqlite_schema WHERE name = 'half_done'";
            sql.row(count, &[]).await?.map_or(Ok(-1), |row| row.int(0))
        })
    })
}

#[tokio::test]
async fn a_panic_inside_a_transaction_leaves_nothing_behind_and_the_writer_works_on() {
    let mut name = [0_u8; 8];
    getrandom::fill(&mut name).unwrap();
    let file = std::env::temp_dir().join(format!("longhaul-panic-{:016x}.db", u64::from_le_bytes(name)));
    for store in [Sqlite::memory().unwrap(), Sqlite::file(&file, Sync::Normal).unwrap()] {
        for _ in 0..2 {
            let broken = store.write(panics()).await;
            assert!(matches!(broken, Err(StoreError::Failed(_))), "{broken:?}");
            let broken = store.read(panics()).await;
            assert!(matches!(broken, Err(StoreError::Failed(_))), "{broken:?}");
        }
        assert_eq!(store.write(tables()).await.unwrap(), 0, "the writer works, and nothing was kept");
        assert_eq!(store.read(tables()).await.unwrap(), 0);
    }
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", file.display()));
    }
}
