import java.io.BufferedReader;
import java.io.InputStreamReader;

import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FsShell;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.namenode.EditLogFileOutputStream;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.hdfs.tools.CryptoAdmin;
import org.apache.hadoop.hdfs.tools.DFSAdmin;
import org.apache.hadoop.hdfs.tools.DFSHAAdmin;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;
import org.apache.hadoop.security.Credentials;
import org.apache.hadoop.util.Tool;
import org.apache.hadoop.util.ToolRunner;

/**
 * A NameNode or a DataNode that runs Hadoop's commands and ends with its standard input.
 *
 * The one argument is namenode, datanode or format-and-namenode. The configuration comes from the class path. A line
 * of the input is a command and its arguments, tabs between them. What it prints goes to the output, then an end of
 * line and a line "exit CODE"; the first such line says that the node is up.
 */
public final class HdfsNode {
    public static void main(String[] args) throws Exception {
        HdfsConfiguration conf = new HdfsConfiguration();
        String[] none = new String[0];
        // Nodes are killed, and the machine is not: what they wrote stays without a sync.
        EditLogFileOutputStream.setShouldSkipFsyncForTesting(true);
        if (args[0].equals("datanode")) {
            DataNode node = DataNode.createDataNode(none, conf);
            while (!node.isDatanodeFullyStarted(true)) {
                Thread.sleep(20);
            }
        } else {
            if (!args[0].equals("namenode")) {
                DefaultMetricsSystem.setMiniClusterMode(true); // for a format and a NameNode in one process
                NameNode.format(conf);
            }
            NameNode.createNameNode(none, conf);
        }
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        int code = 0;
        String line;
        do {
            System.out.println("\nexit " + code);
            System.out.flush();
            line = commands.readLine();
            if (line != null) {
                String[] words = line.split("\t");
                String[] arguments = new String[words.length - 1];
                System.arraycopy(words, 1, arguments, 0, arguments.length);
                if (words[0].equals("token")) {
                    writeToken(conf, arguments[0]);
                    code = 0;
                } else {
                    code = ToolRunner.run(conf, tool(words[0], conf), arguments);
                }
            }
        } while (line != null);
        Runtime.getRuntime().halt(0);
    }

    private static void writeToken(HdfsConfiguration conf, String file) throws Exception {
        Credentials credentials = new Credentials();
        FileSystem.get(conf).addDelegationTokens("nobody", credentials);
        credentials.writeTokenStorageFile(new Path("file://" + file), conf);
    }

    private static Tool tool(String command, HdfsConfiguration conf) {
        if (command.equals("dfsadmin")) {
            return new DFSAdmin(conf);
        }
        if (command.equals("haadmin")) {
            return new DFSHAAdmin();
        }
        if (command.equals("crypto")) {
            return new CryptoAdmin(conf);
        }
        return new FsShell(conf);
    }
}
