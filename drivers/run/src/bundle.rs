//! An open model bundle.

use std::path::Path;

use crate::bytes::Fault;
use crate::check;
use crate::container::{Container, Kind, MAGIC, damaged};
use crate::error::Result;
use crate::plan::{About, Port, State, TargetPlan};
use crate::ports::named;
use crate::source::Source;
use crate::wire::{self, Interface};

/// A bundle whose header, plans and ports were read and checked. Weights and code are read when a device is chosen.
#[derive(Clone, Debug)]
pub struct ModelBundle {
    pub(crate) container: Container,
    about: About,
    interface: Interface,
    targets: Vec<TargetPlan>,
}

impl ModelBundle {
    /// Opens a file, which must not be changed while it is used.
    ///
    /// # Errors
    /// A file that cannot be read, is no bundle, is damaged, or is of a newer version.
    pub fn open(path: impl AsRef<Path>) -> Result<ModelBundle> {
        ModelBundle::read(Source::open(path)?)
    }

    /// Whether a file begins as a bundle does.
    ///
    /// # Errors
    /// [`crate::Error::Io`].
    pub fn is_one(path: impl AsRef<Path>) -> Result<bool> {
        let source = Source::open(path)?;
        let mut magic = [0; MAGIC.len()];
        let long = source.len() >= magic.len() as u64;
        if long {
            source.read(0, &mut magic)?;
        }
        Ok(long && magic == MAGIC)
    }

    /// Opens a bundle in memory; `name` stands for its path in errors.
    ///
    /// # Errors
    /// As [`ModelBundle::open`].
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<ModelBundle> {
        ModelBundle::read(Source::memory(name, bytes))
    }

    fn read(source: Source) -> Result<ModelBundle> {
        let container = Container::open(source)?;
        let source = &container.source;
        // Three sections for all, two for each target.
        let count = container.sections.len().saturating_sub(3) / 2;
        let all = [Kind::About, Kind::Interface, Kind::Constants].into_iter();
        let all = all.chain((0..count as u32).flat_map(|n| [Kind::Target(n), Kind::Code(n)]));
        if !all.eq(container.sections.iter().map(|section| section.kind)) {
            let names = container.sections.iter().map(|section| section.kind.name());
            let names: Vec<String> = names.collect();
            let expected =
                "about, interface, constants, and plan and code of each target, in this order";
            return Err(damaged(
                source,
                "header",
                Fault::new(expected, names.join(", ")),
            ));
        }
        let about = container.read(container.section(Kind::About)?)?;
        let about = wire::read_about(&about);
        let about = about.map_err(|e| damaged(source, &Kind::About.name(), e))?;
        let constants = container.section(Kind::Constants)?.bytes;
        let interface = container.read(container.section(Kind::Interface)?)?;
        let fault = |e| damaged(source, &Kind::Interface.name(), e);
        let interface = wire::read_interface(&interface).map_err(fault)?;
        check::interface(&interface, constants).map_err(fault)?;
        let mut targets = Vec::with_capacity(count);
        for n in 0..count as u32 {
            let bytes = container.read(container.section(Kind::Target(n))?)?;
            let code = container.section(Kind::Code(n))?.bytes;
            let fault = |e| damaged(source, &Kind::Target(n).name(), e);
            let plan = wire::read_target(&bytes).map_err(fault)?;
            check::target(&plan, &interface, constants, code).map_err(fault)?;
            targets.push(plan);
        }
        Ok(ModelBundle {
            about,
            interface,
            targets,
            container,
        })
    }

    /// Reads the sections that [`ModelBundle::open`] leaves alone, and checks their hashes.
    ///
    /// # Errors
    /// A file that cannot be read or is damaged.
    pub fn check(&self) -> Result<()> {
        for section in &self.container.sections {
            self.container.pieces(section, |_, _| Ok(()))?;
        }
        Ok(())
    }

    /// Its name in errors.
    pub fn name(&self) -> &str {
        self.container.source.name()
    }

    /// The version of the format.
    pub fn version(&self) -> u32 {
        self.container.version
    }

    /// Size of the file.
    pub fn bytes(&self) -> u64 {
        self.container.source.len()
    }

    /// Size of the section of constants, which all targets share.
    pub fn constant_bytes(&self) -> u64 {
        let sections = self.container.sections.iter();
        let constants = sections.filter(|s| s.kind == Kind::Constants);
        constants.map(|s| s.bytes).sum()
    }

    /// What it was made from.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// What each run is given.
    pub fn inputs(&self) -> &[Port] {
        &self.interface.inputs
    }

    /// What each run gives.
    pub fn outputs(&self) -> &[Port] {
        &self.interface.outputs
    }

    /// The input with a name.
    ///
    /// # Errors
    /// There is none; which there are.
    pub fn input(&self, name: &str) -> Result<&Port> {
        Ok(named(self.inputs().iter(), "input", name)?.1)
    }

    /// The output with a name.
    ///
    /// # Errors
    /// As [`ModelBundle::input`].
    pub fn output(&self, name: &str) -> Result<&Port> {
        Ok(named(self.outputs().iter(), "output", name)?.1)
    }

    /// What a run leaves to the next one.
    pub fn states(&self) -> &[State] {
        &self.interface.states
    }

    /// What it has code for.
    pub fn targets(&self) -> &[TargetPlan] {
        &self.targets
    }
}
