package store

// OpenWaiting is Open with another lockWait.
var OpenWaiting = open
