//! Finds the row of a request. A path is matched once; what is known about the call afterwards is read from the match.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use axum::body::Body;
use axum::routing::MethodRouter;
use http::{HeaderValue, Method, Request};
use tower::ServiceExt;

use crate::app::App;
use crate::http::aws_addresses;
use crate::http::error::ApiError;
use crate::http::problem::Problem;
use crate::http::response::ApiResponse;
use crate::http::routes::{Listener, Route, Verb};
use crate::http::service::Phases;

/// The most parameters that a path of the tables has.
const PATH_PARAMETERS_MAX: usize = 2;
/// The route under which requests for unknown paths are counted.
pub(crate) const UNKNOWN: &str = "unknown";

/// The paths of one listener.
pub(crate) struct Router {
    listener: Listener,
    /// The stage of API Gateway that AWS's calls may have before them.
    aws_stage: Option<String>,
    matcher: matchit::Router<usize>,
    paths: Vec<PathRoutes>,
    unknown: PathRoutes,
}

/// The rows of one path, and the service that runs the phases around their handlers.
pub(crate) struct PathRoutes {
    pub(crate) path: &'static str,
    rows: Vec<&'static Route>,
    service: MethodRouter,
}

/// Where a request's path leads.
#[derive(Debug, Clone)]
pub(crate) struct PathMatch {
    /// `None`: nowhere.
    index: Option<usize>,
    /// Where in the path its parameters are.
    parameters: [Range<usize>; PATH_PARAMETERS_MAX],
}

impl PathMatch {
    /// The first parameter as it stands in the path.
    pub(crate) fn first_parameter<'path>(&self, path: &'path str) -> Option<&'path str> {
        path.get(self.parameters[0].clone()).filter(|parameter| !parameter.is_empty())
    }
}

/// The parameters of a path as they stand in it, for the handler.
#[derive(Debug, Clone)]
pub(crate) struct PathParameters(pub(crate) Vec<String>);

impl Router {
    pub(crate) fn new(app: &Arc<App>, listener: Listener) -> Self {
        let mut rows_by_path: BTreeMap<&'static str, Vec<&'static Route>> = BTreeMap::new();
        for row in listener.routes() {
            rows_by_path.entry(row.path).or_default().push(row);
        }
        let mut matcher = matchit::Router::new();
        let mut paths = vec![];
        for (path, rows) in rows_by_path {
            matcher.insert(path, paths.len()).expect("the paths of a table do not contradict each other");
            let handlers =
                rows.iter().fold(MethodRouter::new(), |methods, row| methods.merge((row.handler)()));
            // The phases refuse a method without a row before this could be asked.
            let handlers = handlers.fallback(async || ApiError::problem(Problem::MethodNotAllowed, ""));
            paths.push(PathRoutes::new(app, listener, path, rows, handlers));
        }
        let nothing = async || ApiError::problem(Problem::NotFound, "There is nothing at this path");
        let unknown = PathRoutes::new(app, listener, UNKNOWN, vec![], axum::routing::any(nothing));
        Self { listener, aws_stage: app.aws_stage.clone(), matcher, paths, unknown }
    }

    /// Matches a path, which for a call of AWS's may begin with the stage.
    pub(crate) fn find(&self, path: &str) -> PathMatch {
        self.path_below_stage(path).map_or_else(|| self.find_exactly(path), |below| self.find_exactly(below))
    }

    /// What follows the stage in the path of a call of AWS's. A path that is a route as it stands has no stage.
    pub(crate) fn path_below_stage<'path>(&self, path: &'path str) -> Option<&'path str> {
        let below = aws_addresses::below_stage(self.listener, self.aws_stage.as_deref(), path)?;
        self.matcher.at(path).is_err().then_some(below)
    }

    fn find_exactly(&self, path: &str) -> PathMatch {
        let mut found = PathMatch { index: None, parameters: [0..0, 0..0] };
        if let Ok(matched) = self.matcher.at(path) {
            found.index = Some(*matched.value);
            for (range, (_, value)) in found.parameters.iter_mut().zip(matched.params.iter()) {
                let begin = value.as_ptr() as usize - path.as_ptr() as usize;
                *range = begin..begin + value.len();
            }
        }
        found
    }

    /// The rows of a match.
    pub(crate) fn routes(&self, found: &PathMatch) -> &PathRoutes {
        found.index.map_or(&self.unknown, |index| &self.paths[index])
    }

    /// Runs the phases and the handler.
    pub(crate) fn dispatch(
        &self,
        found: &PathMatch,
        mut request: Request<Body>,
    ) -> impl Future<Output = ApiResponse> + Send + use<> {
        let path = request.uri().path();
        let parameters = found.parameters.iter().filter(|range| !range.is_empty());
        let parameters: Vec<String> =
            parameters.filter_map(|range| path.get(range.clone())).map(str::to_owned).collect();
        if !parameters.is_empty() {
            request.extensions_mut().insert(PathParameters(parameters));
        }
        let service = self.routes(found).service.clone();
        async move { service.oneshot(request).await.unwrap_or_else(|never| match never {}) }
    }
}

impl PathRoutes {
    fn new(
        app: &Arc<App>,
        listener: Listener,
        path: &'static str,
        rows: Vec<&'static Route>,
        handlers: MethodRouter<Arc<App>>,
    ) -> Self {
        let phases = Arc::new(Phases::new(Arc::clone(app), listener, path, rows.clone()));
        let layer = axum::middleware::from_fn_with_state(phases, Phases::run);
        Self { path, rows, service: handlers.layer(layer).with_state(Arc::clone(app)) }
    }

    /// The row of a method.
    pub(crate) fn row(&self, method: &Method) -> Option<&'static Route> {
        row_of(&self.rows, method)
    }

    /// Any row, for what all rows of a path have in common.
    pub(crate) fn any_row(&self) -> Option<&'static Route> {
        self.rows.first().copied()
    }
}

/// The row of a method; HEAD is a GET whose body is not sent.
pub(crate) fn row_of(rows: &[&'static Route], method: &Method) -> Option<&'static Route> {
    let is_of = |row: &&&'static Route| match row.method {
        Verb::Get => matches!(*method, Method::GET | Method::HEAD),
        other => method.as_str() == other.as_str(),
    };
    rows.iter().find(is_of).copied()
}

/// What `Allow` says about a path.
pub(crate) fn allowed_methods(rows: &[&'static Route]) -> HeaderValue {
    let mut methods: Vec<&str> = rows.iter().map(|row| row.method.as_str()).collect();
    if methods.contains(&"GET") {
        methods.push("HEAD");
    }
    methods.push("OPTIONS");
    HeaderValue::try_from(methods.join(",")).expect("names of methods")
}
