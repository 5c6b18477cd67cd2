//! The Parquet files of a folder, where the build has them.

#[cfg(feature = "dataframe")]
mod with {
    use ctxsim::report::ResultSet;
    use ctxsim::report::files::{OutputDir, OutputFile};
    use ctxsim::report::frame;
    use ctxsim::report::requests::RunRecord;

    use crate::cli::exit::Failure;

    /// requests.parquet.
    #[derive(Debug)]
    pub struct Requests(frame::RequestsParquet<OutputFile>);

    impl Requests {
        /// Opens the file of a folder.
        ///
        /// # Errors
        /// A folder that cannot be written.
        pub fn create(dir: &OutputDir) -> Result<Option<Requests>, Failure> {
            Ok(Some(Requests(frame::RequestsParquet::new(dir.create("requests.parquet")?)?)))
        }

        /// Adds the requests of a cell.
        ///
        /// # Errors
        /// Those of the file.
        pub fn write(&mut self, run: &RunRecord<'_>) -> Result<(), Failure> {
            Ok(self.0.write(run)?)
        }

        /// Completes the file.
        ///
        /// # Errors
        /// Those of the file.
        pub fn commit(self) -> Result<(), Failure> {
            Ok(self.0.finish()?.commit()?)
        }
    }

    /// Writes results.parquet.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn write_results(dir: &OutputDir, results: &ResultSet) -> Result<(), Failure> {
        Ok(dir.write("results.parquet", &frame::parquet(results)?)?)
    }
}

#[cfg(not(feature = "dataframe"))]
mod without {
    use ctxsim::report::ResultSet;
    use ctxsim::report::files::OutputDir;
    use ctxsim::report::requests::RunRecord;

    use crate::cli::exit::Failure;

    /// There is none in this build.
    #[derive(Debug)]
    pub enum Requests {}

    impl Requests {
        /// No file.
        ///
        /// # Errors
        /// None.
        pub fn create(_: &OutputDir) -> Result<Option<Requests>, Failure> {
            Ok(None)
        }

        /// Not reached: there is no such file.
        ///
        /// # Errors
        /// None.
        pub fn write(&mut self, _: &RunRecord<'_>) -> Result<(), Failure> {
            match *self {}
        }

        /// Not reached: there is no such file.
        ///
        /// # Errors
        /// None.
        pub fn commit(self) -> Result<(), Failure> {
            match self {}
        }
    }

    /// Nothing to write.
    ///
    /// # Errors
    /// None.
    pub fn write_results(_: &OutputDir, _: &ResultSet) -> Result<(), Failure> {
        Ok(())
    }
}

#[cfg(feature = "dataframe")]
pub use with::{Requests, write_results};
#[cfg(not(feature = "dataframe"))]
pub use without::{Requests, write_results};
