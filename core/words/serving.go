package words

// What was refused to parties that ask the daemon.
var (
	ConnectionsRefused = says("connections-refused", "{} has as many connections to homenode as one party may: {} more were refused. Others are answered; the programs that hold the connections can be ended")
	RequestsRefused    = says("requests-refused", "{} asks homenode more often than one party may: {} requests were refused. Others are answered; the program that asks can be ended or asked to wait")
)
