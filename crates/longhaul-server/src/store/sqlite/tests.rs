use super::*;
use crate::store::in_transaction;

/// Returns work that creates a table and panics before the commit.
fn panicking_work() -> TransactionFn<()> {
    in_transaction((), |sql, ()| {
        Box::pin(async move {
            sql.run("CREATE TABLE half_done (n INTEGER)", &[]).await?;
            assert!(std::hint::black_box(false), "on purpose");
            Ok(())
        })
    })
}

fn count_half_done_tables() -> TransactionFn<i64> {
    in_transaction((), |sql, ()| {
        Box::pin(async move {
            let count = "SELECT count(*) FROM sqlite_schema WHERE name = 'half_done'";
            sql.row(count, &[]).await?.map_or(Ok(-1), |row| row.int(0))
        })
    })
}

#[tokio::test]
async fn a_panic_inside_a_transaction_leaves_nothing_behind_and_the_writer_works_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.db");
    for store in [Sqlite::open_memory().unwrap(), Sqlite::open_file(&file, Durability::Normal).unwrap()] {
        for _ in 0..2 {
            let broken = store.write(panicking_work()).await;
            assert!(matches!(broken, Err(StoreError::Failed(_))), "{broken:?}");
            let broken = store.read(panicking_work()).await;
            assert!(matches!(broken, Err(StoreError::Failed(_))), "{broken:?}");
        }
        assert_eq!(store.write(count_half_done_tables()).await.unwrap(), 0, "the writer works, and nothing was kept");
        assert_eq!(store.read(count_half_done_tables()).await.unwrap(), 0);
    }
}
