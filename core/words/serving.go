package words

// Refusals of connections and requests.
var (
	ConnectionsRefused = says("connections-refused",
		"{} holds so many connections to homenode that {} more were refused or closed. Other clients are served; to "+
			"recover, end the programs that hold the connections (ss -xp for the socket, ss -tp for the page)")
	RequestsRefused = says("requests-refused",
		"{} exceeds the request limit of one client: {} requests were refused. Other clients are served; to recover, "+
			"make its programs ask less often, or end them")
)
