//! From a server that was typed to one of the two servers that are compared.

use super::{Instance, Side};
use crate::error::Error;
use crate::http;
use crate::install::Installed;
use crate::lab::Lab;
use crate::record::Program;
use crate::server::{RunningServer, configuration_text};
use crate::server_description::Setting;
use crate::server_spec::ServerSpec;
use crate::workload::Workload;
use std::net::SocketAddr;

/// A server that was typed, and is present.
#[derive(Debug)]
pub enum Candidate {
    /// A server that runs already, at this address.
    Running(SocketAddr),
    /// A server that is started for the comparison.
    ToStart(Box<(Installed, Setting)>),
}

impl Candidate {
    /// Looks for the server.
    ///
    /// # Errors
    /// When it is absent, or cannot be set so.
    pub fn find(lab: &Lab, spec: &ServerSpec) -> Result<Self, Error> {
        match spec {
            ServerSpec::Running { address } => match http::connect(*address) {
                Ok(_) => Ok(Self::Running(*address)),
                Err(why) => Err(Error::Failed(format!("{spec} does not answer: {why}"))),
            },
            ServerSpec::ByName { .. } => Ok(Self::ToStart(Box::new(lab.find(spec)?))),
        }
    }

    /// Starts the server, unless it runs already.
    ///
    /// # Errors
    /// When it cannot be started, with what it printed, in a line.
    pub fn start(self, lab: &Lab, spec: &ServerSpec, workload: &Workload) -> Result<Side, Error> {
        let (installed, setting) = match self {
            Self::Running(address) => return Ok(running(spec, address)),
            Self::ToStart(found) => *found,
        };
        let launch = lab.launch(workload);
        let server = RunningServer::start(&installed, &setting, &launch)
            .map_err(|why| Error::Failed(format!("{spec}: {}", in_one_line(&why.to_string()))))?;
        let configuration = configuration_text(&installed, &setting, &launch);
        Ok(Side {
            server: installed.description.name.clone(),
            setting: setting.name,
            version: installed.version,
            program: installed.description.recorded_program(),
            description: installed.description.description,
            configuration,
            instance: Instance::Started(Box::new(server)),
        })
    }
}

/// Joins the lines that a server has printed.
fn in_one_line(why: &str) -> String {
    why.lines().collect::<Vec<_>>().join("; ")
}

fn running(spec: &ServerSpec, address: SocketAddr) -> Side {
    Side {
        server: spec.to_string(),
        setting: String::new(),
        version: String::new(),
        program: Program::default(),
        description: String::new(),
        configuration: String::new(),
        instance: Instance::Running(address),
    }
}
