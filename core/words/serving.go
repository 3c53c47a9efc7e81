package words

// What was refused to parties that ask the daemon.
var (
	ConnectionsRefused = says("connections-refused", "{} holds so many connections to homenode that {} more were refused or closed. Others are answered; to help it, end the programs that hold them (ss -xp for the socket, ss -tp for the page)")
	RequestsRefused    = says("requests-refused", "{} asks homenode more often than one party may: {} requests were refused. Others are answered; to help it, let its programs ask less often, or end them")
)
