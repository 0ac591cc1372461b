//! One session out of the store, and what can be done with it.

use http::StatusCode;
use longhaul_engine::models::Model;
use serde_json::value::RawValue;

use super::frame::Problem;
use super::gather::Policies;
use super::model::{
    Added, Against, EpochRow, EpochView, Found, Opened, Point, Request, Requests, SessionView, Shifted,
    Squeezed,
};
use crate::gateway::Gateway;
use crate::session::{Became, Compress, Preview, compact_stored};
use crate::store::{At, Moved, Owned, Result, Scope, Standing, StoreError, Tenant, Traffic, Whose};

/// So many requests stand on a page,
const PAGE: usize = 50;
/// and so many things are found.
const HITS: usize = 20;

/// Which way a head is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Undo,
    Redo,
}

impl Gateway {
    /// The session of that name.
    pub(super) async fn standing(&self, whose: &Whose, name: &str) -> Result<Standing> {
        let unknown = || StoreError::Unknown("there is no such session".to_owned());
        self.store.standing(whose, name).await?.ok_or_else(unknown)
    }

    pub(super) async fn view(&self, whose: &Whose, name: &str, page: usize) -> Result<SessionView> {
        let standing = self.standing(whose, name).await?;
        let Owned { tenant, session } = &standing.owned;
        let traffic = self.store.traffic(tenant, session.id).await?;
        let epochs = self.store.epochs(tenant, session).await?;
        let lineage = self.store.lineage(tenant, session).await?;
        let pages = traffic.len().div_ceil(PAGE).max(1);
        let page = page.clamp(1, pages);
        let newest = traffic.iter().enumerate().rev().skip((page - 1) * PAGE).take(PAGE);
        let point = |one: &Traffic| Point {
            at: one.at,
            tokens_before: one.before,
            tokens_after: one.after,
            cache_read: one.usage.read,
        };
        let epoch_row = |epoch| EpochRow::of(epoch, session.head == Some(epoch.id), &traffic);
        Ok(SessionView {
            row: self.row(&standing, &mut Policies::default(), self.now()).await?,
            added_ms: Added::over(&traffic),
            held: session.held,
            reason: session.reason.name(),
            parent: lineage.ancestors.into_iter().next().map(|parent| parent.name),
            children: lineage.children.into_iter().map(|child| child.name).collect(),
            course: traffic.iter().map(point).collect(),
            epochs: epochs.iter().map(epoch_row).collect(),
            requests: Requests { page, pages, rows: newest.map(|(at, one)| Request::of(at, one)).collect() },
        })
    }

    pub(super) async fn epoch(
        &self,
        whose: &Whose,
        (name, number): (&str, usize),
        against: Against,
    ) -> Result<EpochView> {
        let Standing { owned, .. } = self.standing(whose, name).await?;
        let Owned { tenant, session } = &owned;
        let epochs = self.store.epochs(tenant, session).await?;
        let unknown = || StoreError::Unknown("there is no such compaction of this session".to_owned());
        let epoch = epochs.iter().rev().find(|epoch| epoch.number == number).ok_or_else(unknown)?;
        let traffic = self.store.traffic(tenant, session.id).await?;
        let [original, shown] = self.store.before(&owned, epoch).await?;
        let before = match against {
            Against::Original => original,
            Against::Shown => shown,
        };
        let after = self.store.body(tenant, session, At::Epoch(number)).await?;
        Ok(EpochView {
            session: session.name.clone(),
            epoch: EpochRow::of(epoch, session.head == Some(epoch.id), &traffic),
            dialect: session.dialect,
            model: session.model.clone(),
            counted: self.counted(tenant, session.model.as_deref()).await?,
            has_before: epoch.parent.is_some(),
            report: epoch.report.clone(),
            against,
            before: raw(before)?,
            after: raw(after)?,
        })
    }

    pub(super) async fn search(&self, whose: &Whose, name: &str, query: &str) -> Result<Found> {
        let Standing { owned: Owned { tenant, session }, .. } = self.standing(whose, name).await?;
        let hits = match query.trim() {
            "" => Vec::new(),
            query => self.store.search(&tenant, &session, Scope::Family, query, HITS).await?,
        };
        let hits = hits.into_iter().map(Into::into).collect();
        Ok(Found { session: session.name, query: query.to_owned(), hits })
    }

    /// What a handle leads to, among the sessions that a session belongs to, or among all that may be looked at.
    pub(super) async fn open(&self, whose: &Whose, within: Option<&str>, handle: &str) -> Result<Opened> {
        if let Some(name) = within {
            let Standing { owned: Owned { tenant, session }, .. } = self.standing(whose, name).await?;
            return self.store.recall(&tenant, Some(&session), handle).await.map(Into::into);
        }
        let tenants = match whose {
            Whose::One(tenant) => vec![tenant.clone()],
            Whose::Everybody => self.store.tenants().await?,
        };
        for tenant in &tenants {
            match self.store.recall(tenant, None, handle).await {
                Err(StoreError::Unknown(_)) => {}
                other => return other.map(Into::into),
            }
        }
        Err(StoreError::Unknown("this handle leads nowhere".to_owned()))
    }

    /// A model as its tokens are counted, with what was learned of it.
    async fn counted(&self, tenant: &Tenant, model: Option<&str>) -> Result<Option<Model>> {
        let mut policies = Policies::default();
        Ok(self.policy(tenant, model, &mut policies).await?.map(|policy| policy.model.clone()))
    }

    /// Moves the head of a session. Whoever holds the session in memory reads the head before it goes on.
    pub(super) async fn shift(&self, whose: &Whose, name: &str, way: Way) -> Result<Shifted> {
        let Standing { owned: Owned { tenant, session }, epoch, .. } = self.standing(whose, name).await?;
        let moved = match way {
            Way::Undo => self.store.undo(&tenant, session.id).await?,
            Way::Redo => self.store.redo(&tenant, session.id).await?,
        };
        self.dashboard.pulse.beat(&tenant);
        let (moved, epoch) = match moved {
            Moved::To(to) => (true, to.map(|epoch| epoch.number)),
            Moved::Nowhere => (false, epoch),
        };
        Ok(Shifted { session: session.name, moved, epoch })
    }

    /// Compacts a session now, or says what that would do.
    pub(super) async fn squeeze(
        &self,
        whose: &Whose,
        name: &str,
        compress: Compress,
    ) -> std::result::Result<Squeezed, Problem> {
        let Standing { owned: Owned { tenant, session }, .. } = self.standing(whose, name).await?;
        let settings = &self.settings.session;
        let done = compact_stored(&self.store, &tenant, &session, settings, &compress, self.now()).await;
        let done = done.map_err(|said| Problem::new(StatusCode::CONFLICT, said))?;
        // The report is about what the client sent, whatever was compacted before.
        let original = self.store.body(&tenant, &session, At::Original).await?;
        self.dashboard.pulse.beat(&tenant);
        Ok(Squeezed {
            session: done.session.name,
            epoch: match done.became {
                Became::Epoch(number) => Some(number),
                Became::Preview | Became::Nothing => None,
            },
            preview: compress.preview == Preview::Yes,
            changed: done.became != Became::Nothing,
            reason: done.report["reason"].as_str().map(ToOwned::to_owned),
            obstacle: done.obstacle,
            dialect: done.session.dialect,
            counted: self.counted(&tenant, done.session.model.as_deref()).await?,
            model: done.session.model,
            report: done.report,
            before: raw(original)?,
            after: raw(done.after)?,
        })
    }
}

/// A body as it stands in an answer.
fn raw(body: String) -> Result<Box<RawValue>> {
    RawValue::from_string(body)
        .map_err(|error| StoreError::Damaged(format!("the session is no JSON: {error}")))
}
