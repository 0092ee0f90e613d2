//! The providers of a process, by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Provider;

/// The providers of a process, by name.
#[derive(Clone, Default)]
pub struct Registry(BTreeMap<&'static str, Arc<dyn Provider>>);

impl Registry {
    /// Adds a provider.
    #[must_use]
    pub fn with(self, provider: impl Provider) -> Self {
        self.with_shared(Arc::new(provider))
    }

    /// Adds a provider that others use too.
    #[must_use]
    pub fn with_shared(mut self, provider: Arc<dyn Provider>) -> Self {
        self.0.insert(provider.name(), provider);
        self
    }

    /// The names that an annotation may use, in order.
    pub fn names(&self) -> Vec<&'static str> {
        self.0.keys().copied().collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<dyn Provider>> {
        self.0.get(name).cloned()
    }
}
