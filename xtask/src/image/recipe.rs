//! The images, as data: which binary goes into each, and what Debian and we add to it.

mod hsm;

use trustplane_cluster::tools::Tool;

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
    /// What is built before the binary, because the binary embeds it.
    pub embeds: &'static [Tool],
    /// What the binary starts or opens at run time. The shared objects that any of it links come by themselves.
    pub extras: Extras,
    /// Whether it is part of the product, or lives for the tests alone.
    pub shipped: bool,
    /// What the image must not outgrow, compressed, in a release.
    pub budget: u64,
}

/// What an image holds beside our binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extras {
    /// From Debian packages.
    pub debian: &'static [Taken],
    /// Files of our own: path and content.
    pub files: &'static [(&'static str, &'static str)],
    /// Directories for the image's user alone, for a volume or, without one, to be written to.
    pub directories: &'static [&'static str],
    /// Readers that the CCID driver of the image learns to know.
    pub readers: &'static [Reader],
}

/// A part of a Debian package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken {
    /// The package.
    pub package: &'static str,
    /// Files, links and directories in it. A link brings what it means; `{triplet}` stands for the architecture.
    pub paths: &'static [&'static str],
}

/// A USB smart card reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reader {
    /// The USB vendor.
    pub vendor: u16,
    /// The USB product.
    pub product: u16,
    /// What pcscd calls it.
    pub name: &'static str,
}

const MEGABYTE: u64 = 1_000_000;

const NO_EXTRAS: Extras = Extras {
    debian: &[],
    files: &[],
    directories: &[],
    readers: &[],
};

/// Every image of the project.
pub const RECIPES: &[Recipe] = &[
    Recipe {
        name: "manager",
        package: "trustplane-manager",
        binary: "trustplane-manager",
        also_at: &["/manager"],
        embeds: &[],
        extras: NO_EXTRAS,
        shipped: true,
        budget: 30 * MEGABYTE,
    },
    Recipe {
        name: "discovery",
        package: "trustplane-discovery",
        binary: "trustplane-discovery",
        also_at: &[],
        embeds: &[],
        extras: NO_EXTRAS,
        shipped: true,
        budget: 30 * MEGABYTE,
    },
    Recipe {
        name: "agent",
        package: "trustplane-agent",
        binary: "trustplane-agent",
        also_at: &[],
        embeds: &[],
        extras: hsm::MODULES,
        shipped: true,
        budget: 40 * MEGABYTE,
    },
    Recipe {
        name: "hub",
        package: "trustplane-hub",
        binary: "trustplane-hub",
        also_at: &[],
        embeds: &[Tool::Console],
        extras: Extras {
            // The chart mounts the volume of the database here.
            directories: &["/var/lib/trustplane-hub"],
            ..NO_EXTRAS
        },
        shipped: true,
        budget: 30 * MEGABYTE,
    },
    Recipe {
        name: "sample-manager",
        package: "trustplane-faults",
        binary: "sample-manager",
        also_at: &[],
        embeds: &[],
        extras: NO_EXTRAS,
        shipped: false,
        budget: 30 * MEGABYTE,
    },
];

/// What the command line may say.
pub fn names() -> Vec<&'static str> {
    RECIPES.iter().map(|recipe| recipe.name).collect()
}

/// The recipes of the images that ship.
pub fn shipped() -> impl Iterator<Item = &'static Recipe> {
    RECIPES.iter().filter(|recipe| recipe.shipped)
}

impl Recipe {
    /// How a pod asks for it. The host `localhost` says that no registry has it: a node that lacks the image fails at once
    /// instead of asking strangers for it.
    pub fn reference(&self) -> String {
        format!("localhost/trustplane/{}:{}", self.name, env!("CARGO_PKG_VERSION"))
    }
}
