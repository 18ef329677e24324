import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.streaming.DataStreamReader;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A streaming source without rows. Its new offset makes Spark run a batch when timeouts may have expired.
 *
 * timeout_source.py compiles it in the driver's JVM by janino, which knows neither type arguments nor lambdas.
 * Executors never load these classes. The offset counts the batches that the source has asked for.
 */
public class TimeoutSource implements TableProvider {
  private static final String RUN = "run";
  private static final String TIMEOUT = "timeout";
  private static final String NEXT_TIMEOUT_MS = "nextTimeoutMs";
  private static final String NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled";

  /** The running streams, by the name that timeout_source.py gave to the run of the query. */
  private static final Map RUNNING = new ConcurrentHashMap();

  /**
   * A streaming Dataset of the schema `like` for one run of a query. nextTimeoutMs is that of its last batch. name is
   * the source's name, or null if sources have no names.
   */
  public static Dataset open(
      SparkSession spark, String run, String timeout, long nextTimeoutMs, StructType like, String name)
      throws ReflectiveOperationException {
    // A union matches columns by position, and takes names (which may occur twice) and metadata from the other side.
    StructType schema = new StructType();
    StructField[] fields = like.fields();
    for (int i = 0; i < fields.length; i++) {
      schema = schema.add("c" + i, fields[i].dataType(), fields[i].nullable(), Metadata.empty());
    }
    Thread thread = Thread.currentThread();
    ClassLoader before = thread.getContextClassLoader();
    thread.setContextClassLoader(TimeoutSource.class.getClassLoader());
    try {
      DataStreamReader reader = spark.readStream().format(TimeoutSource.class.getName()).schema(schema)
          .option(RUN, run).option(TIMEOUT, timeout).option(NEXT_TIMEOUT_MS, Long.toString(nextTimeoutMs));
      if (name != null) {
        // Spark 4.1 has no such method.
        reader = (DataStreamReader) DataStreamReader.class.getMethod("name", new Class[] {String.class})
            .invoke(reader, new Object[] {name});
      }
      return reader.load();
    } finally {
      thread.setContextClassLoader(before);
    }
  }

  /** See TimeoutSource.note in timeout_source.py. For a run that has ended it does nothing. */
  public static void note(String run, long batch, long watermarkMs, long nextTimeoutMs) {
    Stream stream = (Stream) RUNNING.get(run);
    if (stream != null) {
      stream.last = new Batch(batch, watermarkMs, nextTimeoutMs);
    }
  }

  public static boolean isRunning(String run) {
    return RUNNING.containsKey(run);
  }

  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return new StructType();
  }

  public boolean supportsExternalMetadata() {
    return true;
  }

  public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
    return new Source(schema);
  }

  private static class Source implements SupportsRead, ScanBuilder, Scan {
    private final StructType schema;
    private CaseInsensitiveStringMap options;

    Source(StructType schema) {
      this.schema = schema;
    }

    public String name() {
      return "hdfsstore timeouts";
    }

    public StructType schema() {
      return schema;
    }

    public Set capabilities() {
      return Collections.singleton(TableCapability.MICRO_BATCH_READ);
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      Source scan = new Source(schema);
      scan.options = options;
      return scan;
    }

    public Scan build() {
      return this;
    }

    public StructType readSchema() {
      return schema;
    }

    public MicroBatchStream toMicroBatchStream(String checkpointLocation) {
      // Spark gives each source `<checkpoint>/sources/<i>`.
      Path checkpoint = new Path(checkpointLocation).getParent().getParent();
      Stream stream = new Stream(
          options.get(RUN), options.get(TIMEOUT), Long.parseLong(options.get(NEXT_TIMEOUT_MS)), checkpoint);
      RUNNING.put(stream.run, stream);
      return stream;
    }
  }

  /** The last batch that ended. */
  private static class Batch {
    static final long UNKNOWN = Long.MIN_VALUE;

    final long id;
    final long watermarkMs;
    final long nextTimeoutMs;
    long nextWatermarkMs = UNKNOWN;

    Batch(long id, long watermarkMs, long nextTimeoutMs) {
      this.id = id;
      this.watermarkMs = watermarkMs;
      this.nextTimeoutMs = nextTimeoutMs;
    }
  }

  private static class TimeoutOffset extends Offset {
    final long count;

    TimeoutOffset(long count) {
      this.count = count;
    }

    public String json() {
      return Long.toString(count);
    }
  }

  private static class Stream implements MicroBatchStream, SupportsTriggerAvailableNow {
    final String run;
    volatile Batch last;  // null: not known, so it is read from the checkpoint
    private final boolean byEventTime;
    private final long firstTimeoutMs;
    private final boolean enabled;
    private final Path checkpoint;
    private final Configuration hadoop;
    private boolean availableNow = false;
    private boolean hasAsked = false;

    Stream(String run, String timeout, long firstTimeoutMs, Path checkpoint) {
      this.run = run;
      this.firstTimeoutMs = firstTimeoutMs;
      this.byEventTime = timeout.equals("EventTimeTimeout");
      this.checkpoint = checkpoint;
      SparkSession session = SparkSession.active();
      this.enabled = Boolean.parseBoolean(session.conf().get(NO_DATA_BATCHES));
      this.hadoop = ((org.apache.spark.sql.classic.SparkSession) session).sessionState().newHadoopConf();
    }

    public void prepareForTriggerAvailableNow() {
      availableNow = true;
    }

    /** A new offset if a batch must run; else null, because any offset, even the first one, would start a batch. */
    public Offset latestOffset(Offset start, ReadLimit limit) {
      if (!enabled || !mustRun()) {
        return null;
      }
      last = null;
      hasAsked = true;
      return new TimeoutOffset(((TimeoutOffset) start).count + 1);
    }

    private boolean mustRun() {
      try {
        if (last == null) {
          last = lastInCheckpoint();
        }
        if (last.id < 0) {
          return false;
        }
        if (!byEventTime) {
          // One batch handles each key that had expired when the run began. Waiting for others might never end.
          return !(availableNow && hasAsked) && last.nextTimeoutMs < System.currentTimeMillis();
        }
        if (last.nextWatermarkMs == Batch.UNKNOWN) {
          last.nextWatermarkMs = number("commits", last.id, "nextBatchWatermarkMs");
        }
        return last.nextWatermarkMs > last.watermarkMs;
      } catch (IOException error) {
        // Spark knows that the query's stop may have caused an exception of this class.
        throw new UncheckedIOException("Cannot read the logs of the checkpoint " + checkpoint, error);
      }
    }

    /** The last committed batch in Spark's logs. */
    private Batch lastInCheckpoint() throws IOException {
      long id = -1;
      Path commits = new Path(checkpoint, "commits");
      FileStatus[] files = new FileStatus[0];
      try {
        files = checkpoint.getFileSystem(hadoop).listStatus(commits);
      } catch (FileNotFoundException error) {
        // An object store has no empty folders.
      }
      for (int i = 0; i < files.length; i++) {
        String name = files[i].getPath().getName();
        if (name.matches("[0-9]+")) {
          id = Math.max(id, Long.parseLong(name));
        }
      }
      return new Batch(id, id < 0 || !byEventTime ? 0 : number("offsets", id, "batchWatermarkMs"), firstTimeoutMs);
    }

    private long number(String log, long batch, String field) throws IOException {
      Path path = new Path(checkpoint, log + "/" + batch);
      ByteArrayOutputStream content = new ByteArrayOutputStream();
      InputStream file = checkpoint.getFileSystem(hadoop).open(path);
      try {
        file.transferTo(content);
      } finally {
        file.close();
      }
      String text = new String(content.toByteArray(), StandardCharsets.UTF_8);
      Matcher found = Pattern.compile("\"" + field + "\":(-?[0-9]+)").matcher(text);
      if (!found.find()) {
        throw new IOException("There is no " + field + " in " + path);
      }
      return Long.parseLong(found.group(1));
    }

    public Offset latestOffset() {
      throw new UnsupportedOperationException("latestOffset(Offset, ReadLimit) is called in its place");
    }

    public Offset initialOffset() {
      return new TimeoutOffset(0);
    }

    public Offset deserializeOffset(String json) {
      return new TimeoutOffset(Long.parseLong(json));
    }

    public InputPartition[] planInputPartitions(Offset start, Offset end) {
      return new InputPartition[0];
    }

    public PartitionReaderFactory createReaderFactory() {
      return null;  // there is no partition to read, and executors do not have this class
    }

    public void commit(Offset end) {
      // Nothing is kept.
    }

    public void stop() {
      RUNNING.remove(run, this);
    }

    public String toString() {
      return "hdfsstore timeouts";
    }
  }
}
