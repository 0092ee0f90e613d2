//! The images, as data: which binary goes into each, and what Debian adds to it.

/// Everything that differs from image to image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recipe {
    /// The image's name, and what the command line calls it.
    pub name: &'static str,
    /// The cargo package that holds the binary.
    pub package: &'static str,
    /// The binary, which is also the entrypoint.
    pub binary: &'static str,
    /// Where manifests of the systems whose place it takes look for the binary.
    pub also_at: &'static [&'static str],
    /// Debian packages whose files the binary opens at run time. The shared objects that it links come by themselves.
    pub adds: &'static [&'static str],
    /// Whether it is part of the product, or lives for the tests alone.
    pub shipped: bool,
    /// What the image must not outgrow, compressed, in a release.
    pub budget: u64,
}

const MEGABYTE: u64 = 1_000_000;

/// Every image of the project.
pub const RECIPES: &[Recipe] = &[
    Recipe {
        name: "manager",
        package: "trustplane-manager",
        binary: "trustplane-manager",
        also_at: &["/manager"],
        adds: &[],
        shipped: true,
        budget: 30 * MEGABYTE,
    },
    Recipe {
        name: "sample-manager",
        package: "trustplane-faults",
        binary: "sample-manager",
        also_at: &[],
        adds: &[],
        shipped: false,
        budget: 30 * MEGABYTE,
    },
];

/// What the command line may say.
pub fn names() -> Vec<&'static str> {
    RECIPES.iter().map(|recipe| recipe.name).collect()
}

impl Recipe {
    /// How a pod asks for it. The host `localhost` says that no registry has it: a node that lacks the image fails at once
    /// instead of asking strangers for it.
    pub fn reference(&self) -> String {
        format!("localhost/trustplane/{}:{}", self.name, env!("CARGO_PKG_VERSION"))
    }
}
