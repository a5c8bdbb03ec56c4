//! The methods of a store that wraps another one, and changes only its connections.

/// Defines the methods that pass a call on to the wrapped store.
macro_rules! pass_on {
    ($inner:ident) => {
        fn describe(&self) -> plimsoll_recorder::store_facts::Description {
            self.$inner.describe()
        }

        fn prefix(&self) -> &str {
            self.$inner.prefix()
        }

        fn container(&self) -> &str {
            self.$inner.container()
        }

        fn capabilities(&self) -> $crate::store::Capabilities {
            self.$inner.capabilities()
        }

        fn only_object(&self) -> Option<&str> {
            self.$inner.only_object()
        }

        fn profile(&self) -> Option<&plimsoll_base::provider::Profile> {
            self.$inner.profile()
        }

        fn relayed(&self) -> Option<plimsoll_recorder::store_facts::RelayFacts> {
            self.$inner.relayed()
        }

        fn background_requests(&self) -> Vec<plimsoll_recorder::store_facts::BackgroundRequest> {
            self.$inner.background_requests()
        }

        fn endpoints(&self) -> usize {
            self.$inner.endpoints()
        }

        fn remove_leftovers(&self, prefix: &str, process: u32) {
            self.$inner.remove_leftovers(prefix, process);
        }
    };
}

pub(crate) use pass_on;
