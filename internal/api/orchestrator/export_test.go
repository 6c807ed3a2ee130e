package orchestrator

// Operations are what the document says of routes.
var Operations = operations
