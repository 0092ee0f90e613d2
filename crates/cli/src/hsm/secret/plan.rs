//! Decides which tokens a command reads or changes, without I/O, from what each chosen token says of the secret.

use anyhow::{Result, bail};
use trustplane_api::hsm::secrets_tool::TokenSecret;
use trustplane_hsm_core::encoded::Encoded;

use super::tokens::Token;

/// What a token says of the secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyState {
    /// The token has the secret.
    Live(Box<TokenSecret<Encoded>>),
    /// The token does not have the secret, or only its tombstone.
    Absent,
    /// The token has a copy that cannot be read, and why.
    Unreadable(String),
    /// The token was not reached, and why.
    NotReached(String),
}

/// A chosen token and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenView {
    pub token: Token,
    pub state: CopyState,
}

/// The secret as one token has it.
pub type Copy<'a> = (&'a Token, &'a TokenSecret<Encoded>);

/// The tokens that a command changes, in this order.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    pub targets: Vec<Token>,
    /// Tokens that are left out because they are not reached, each with the reason.
    pub skipped: Vec<(Token, String)>,
}

/// The content that `create` is to write, as far as it has to be compared.
#[derive(Debug, Clone, Copy)]
pub struct Content<'a> {
    pub digest: &'a str,
    pub description: Option<&'a str>,
}

/// The plan of `create`: every chosen token that is reached. A token that has the wanted content already is no error, so that a
/// command that failed in part can be run again.
pub fn create(path: &str, views: &[TokenView], wanted: Content<'_>, skip: bool) -> Result<Plan> {
    let skipped = reached(views, skip)?;
    for view in views {
        match &view.state {
            CopyState::Live(copy) if !is_same(copy, wanted) => bail!(
                "{path} exists: {} has it with other content, in version {}. Nothing was changed; to change it, use \
                 `kubectl trustplane hsm update`",
                view.token,
                copy.version
            ),
            CopyState::Unreadable(why) => unreadable(path, &view.token, why)?,
            _ => {}
        }
    }
    Ok(plan(views, skipped, |_| true))
}

fn is_same(copy: &TokenSecret<Encoded>, wanted: Content<'_>) -> bool {
    copy.digest == wanted.digest && wanted.description.is_none_or(|wanted| wanted == copy.description)
}

/// The plan of `update`: every chosen token that has the secret.
pub fn update(path: &str, views: &[TokenView], skip: bool) -> Result<Plan> {
    let skipped = reached(views, skip)?;
    for view in views {
        if let CopyState::Unreadable(why) = &view.state {
            unreadable(path, &view.token, why)?;
        }
    }
    if copies(views).is_empty() {
        bail!(
            "{path} does not exist on {}; to make it, use `kubectl trustplane hsm create`",
            names(views)
        )
    }
    Ok(plan(views, skipped, |state| matches!(state, CopyState::Live(_))))
}

/// The plan of `delete`: every chosen token that has the secret, or the key if one is given.
pub fn delete(path: &str, key: Option<&str>, views: &[TokenView], skip: bool) -> Result<Plan> {
    let skipped = reached(views, skip)?;
    let has_it = |state: &CopyState| match state {
        CopyState::Live(copy) => key.is_none_or(|key| copy.sizes.contains_key(key)),
        // The agent says whether the copy can be deleted.
        CopyState::Unreadable(_) => true,
        CopyState::Absent | CopyState::NotReached(_) => false,
    };
    if !views.iter().any(|view| has_it(&view.state)) {
        match key.filter(|_| !copies(views).is_empty()) {
            Some(key) => bail!("{path} has no key {key} on {}", names(views)),
            None => bail!("{path} does not exist on {}", names(views)),
        }
    }
    Ok(plan(views, skipped, has_it))
}

/// The copies of the secret, which must have the same content.
pub fn agreed<'a>(path: &str, views: &'a [TokenView]) -> Result<Vec<Copy<'a>>> {
    let copies = copies(views);
    let Some((_, first)) = copies.first() else {
        for view in views {
            if let CopyState::Unreadable(why) = &view.state {
                unreadable(path, &view.token, why)?;
            }
        }
        bail!("{path} does not exist on {}", names(views))
    };
    if copies.iter().any(|(_, copy)| copy.digest != first.digest) {
        let versions: Vec<String> = copies
            .iter()
            .map(|(token, copy)| format!("{token} has version {}", copy.version))
            .collect();
        bail!(
            "the copies of {path} differ: {}. Choose one with --token",
            versions.join(", ")
        )
    }
    Ok(copies)
}

fn copies(views: &[TokenView]) -> Vec<Copy<'_>> {
    let live = views.iter().filter_map(|view| match &view.state {
        CopyState::Live(copy) => Some((&view.token, &**copy)),
        _ => None,
    });
    live.collect()
}

/// The tokens that are not reached, or an error if they may not be left out.
fn reached(views: &[TokenView], skip: bool) -> Result<Vec<(Token, String)>> {
    let missing: Vec<(Token, String)> = views
        .iter()
        .filter_map(|view| match &view.state {
            CopyState::NotReached(why) => Some((view.token.clone(), why.clone())),
            _ => None,
        })
        .collect();
    let told = || {
        let told = missing.iter().map(|(token, why)| format!("\n  {token}: {why}"));
        told.collect::<String>()
    };
    match (missing.len(), skip) {
        (0, _) => Ok(missing),
        (count, _) if count == views.len() => bail!("no token is reached; nothing was changed:{}", told()),
        (_, true) => Ok(missing),
        (_, false) => bail!(
            "some tokens are not reached; nothing was changed:{}\nTo leave them out, use --skip-unreachable, or name the others with \
             --token",
            told()
        ),
    }
}

fn plan(views: &[TokenView], skipped: Vec<(Token, String)>, is_target: impl Fn(&CopyState) -> bool) -> Plan {
    let is_reached = |state: &CopyState| !matches!(state, CopyState::NotReached(_));
    let targets = views
        .iter()
        .filter(|view| is_reached(&view.state) && is_target(&view.state));
    Plan {
        targets: targets.map(|view| view.token.clone()).collect(),
        skipped,
    }
}

fn unreadable(path: &str, token: &Token, why: &str) -> Result<()> {
    bail!("{path} cannot be read on {token}: {why}")
}

fn names(views: &[TokenView]) -> String {
    let reached = views
        .iter()
        .filter(|view| !matches!(view.state, CopyState::NotReached(_)));
    let names: Vec<String> = reached.map(|view| view.token.to_string()).collect();
    match names.is_empty() {
        true => "any token that is reached".to_owned(),
        false => names.join(", "),
    }
}

#[cfg(test)]
pub mod tests;
