# What is declared is five times what is written, as authors do who do not want to think of it again.

JOB = config["job"]
NAMES = [f"{number:02}" for number in range(30)]


rule all:
    input: "table"

rule simulate:
    output: temp("simulated/{name}")
    resources: disk_mb=130, runtime=1
    shell: "{JOB} --seconds 3 --mb 26 --write {output}"

rule reduce:
    input: "simulated/{name}"
    output: "reduced/{name}"
    resources: disk_mb=10, runtime=1
    shell: "{JOB} --seconds 1.5 --mb 2 --read {input} --write {output}"

rule table:
    input: expand("reduced/{name}", name=NAMES)
    output: "table"
    resources: disk_mb=10, runtime=1
    shell: "{JOB} --seconds 10 --mb 2 --read {input} --write {output}"
